//go:build guest

package disturbance_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var handovers = flag.Int("handovers", 10, "how often CPUs are handed over in each mode")

// Where everybody is, on 8 CPUs. The owner's CPUs are carved out of the shared ones when it comes.
const (
	mount     = "/sys/fs/cgroup"
	host      = cgroup.Path("host")
	near      = cgroup.Path("kubepods/near/c")
	owner     = cgroup.Path("kubepods/owner/c")
	sharers   = 4 // containers in the shared pool, of which one spins
	onlyHosts = "0-1"
)

func wide() cpuset.Set    { return cpuset.Range(2, 5) } // the shared pool without the owner
func narrow() cpuset.Set  { return cpuset.Range(2, 3) } // with it
func carved() cpuset.Set  { return cpuset.Range(4, 5) }
func nearSet() cpuset.Set { return cpuset.Range(6, 7) }

// TestDisturbance counts what happens on a CPU on which a neighbour's thread spins, while an owner comes and goes that gets its CPUs from the
// shared pool: as with cpusets, as a partition and as an isolated one. The writes are the daemon's, in its order; no container runtime is
// there to disturb. Each mode is held against time in which nothing is written: as much, a minute at most.
func TestDisturbance(t *testing.T) {
	k := newKernel(t)
	for _, mode := range []struct {
		name string
		typ  cgroup.PartitionType
	}{{"cpuset", cgroup.MemberPartition}, {"root", cgroup.RootPartition}, {"isolated", cgroup.IsolatedPartition}} {
		if mode.typ != cgroup.MemberPartition && !k.partitions.Remote {
			t.Fatalf("kernel %s has no remote partitions", k.release)
		}
		n := &neighbour{T: t, pid: k.nearPID, cpu: nearSet().Last()}
		k.partition(mode.typ, false)
		before, begin := n.counters(), time.Now()
		for range *handovers {
			k.come(mode.typ)
			k.gone(mode.typ)
		}
		took := time.Since(begin)
		with := n.since(before)

		before = n.counters()
		rest := min(took, time.Minute)
		<-time.After(rest)
		t.Logf("%s, kernel %s: %d hand-overs and back in %v, without any %v", mode.name, k.release, *handovers, took.Round(time.Second), rest.Round(time.Second))
		without := n.since(before)
		for _, counter := range counters() {
			t.Logf("%s: %-11s %6d with, %6d without", mode.name, counter, with[counter], without[counter])
		}
	}
}

// come gives an owner its CPUs: who shares gives way first, then it begins, then it is a partition.
func (k *kernel) come(typ cgroup.PartitionType) {
	k.Helper()
	k.share(narrow())
	if err := os.Mkdir(filepath.Join(mount, string(owner)), 0o755); err != nil {
		k.Fatal(err)
	}
	k.apply(owner, cgroup.FileCPUs, carved().String())
	k.move(k.ownerPID, owner)
	k.partition(typ, true)
	if st := k.state(owner); !st.Effective.Equal(carved()) || !st.Partition.Is(typ) {
		k.Fatalf("the owner is %s with CPUs %s; want %s with %s", st.Partition, st.Effective, typ, carved())
	}
}

// gone ends the owner as a runtime does, which removes its cgroup; then the others get its CPUs back.
func (k *kernel) gone(typ cgroup.PartitionType) {
	k.Helper()
	k.move(k.ownerPID, host)
	if err := os.Remove(filepath.Join(mount, string(owner))); err != nil {
		k.Fatal(err)
	}
	k.partition(typ, false)
	k.share(wide())
	if st := k.state(near); !st.Effective.Equal(nearSet()) || !st.Partition.Is(typ) {
		k.Fatalf("the neighbour is %s with CPUs %s; want %s with %s", st.Partition, st.Effective, typ, nearSet())
	}
}

// share has those of the shared pool run on these CPUs.
func (k *kernel) share(cpus cpuset.Set) {
	k.Helper()
	for i := range sharers {
		k.apply(sharer(i), cgroup.FileCPUs, cpus.String())
	}
	if st := k.state(sharer(0)); !st.Effective.Equal(cpus) {
		k.Fatalf("who shares has CPUs %s; want %s", st.Effective, cpus)
	}
}

func sharer(i int) cgroup.Path { return cgroup.Path(fmt.Sprintf("kubepods/shared%d/c", i)) }

// partition makes the steps until the neighbour, and with both the owner, are partitions of the type, and the owner's is over without.
func (k *kernel) partition(typ cgroup.PartitionType, both bool) {
	k.Helper()
	in := cgroup.PartitionInput{Kernel: k.partitions, Online: cpuset.Range(0, 7), Housekeeping: cpuset.Range(0, 3)}
	if typ != cgroup.MemberPartition {
		in.Wishes = []cgroup.PartitionWish{{Path: near, Type: typ, CPUs: nearSet()}}
		if both {
			in.Wishes = append(in.Wishes, cgroup.PartitionWish{Path: owner, Type: typ, CPUs: carved()})
		}
	}
	if !both {
		in.Former = []cgroup.Path{owner}
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var err error
		if in.View, err = k.fs.ReadPartitions([]cgroup.Path{near, owner}); err != nil {
			k.Fatal(err)
		}
		step := cgroup.PlanPartitions(in)
		for _, w := range step.Writes {
			if err := k.fs.Apply(w.Write); err != nil {
				k.Fatal(err)
			}
		}
		done := len(step.Writes) == 0 && step.Missing.IsEmpty()
		for _, w := range in.Wishes {
			done = done && step.Outcomes[w.Path].Phase == cgroup.PartitionInForce
		}
		if done {
			return
		}
	}
	k.Fatal("the partitions do not come to an end")
}

// neighbour is the thread that is disturbed, the first of its process.
type neighbour struct {
	*testing.T

	pid, cpu int
}

// counters are what is counted: context switches of the thread (/proc/PID/task/TID/status) and interrupts on its CPU (/proc/interrupts). LOC
// is the timer's, RES tells the CPU to schedule, CAL to call a function, TLB to forget a mapping, IWI is work that it gave itself.
func counters() []string {
	return []string{"voluntary", "involuntary", "LOC", "RES", "CAL", "TLB", "IWI"}
}

func (n *neighbour) since(before map[string]int) map[string]int {
	n.Helper()
	now := n.counters()
	for counter, was := range before {
		now[counter] -= was
	}
	return now
}

func (n *neighbour) counters() map[string]int {
	n.Helper()
	all := make(map[string]int)
	for line := range strings.Lines(n.read(fmt.Sprintf("/proc/%d/task/%d/status", n.pid, n.pid))) {
		switch f := strings.Fields(line); f[0] {
		case "voluntary_ctxt_switches:":
			all["voluntary"] = n.number(f[1])
		case "nonvoluntary_ctxt_switches:":
			all["involuntary"] = n.number(f[1])
		}
	}
	column := 0
	for line := range strings.Lines(n.read("/proc/interrupts")) {
		fields := strings.Fields(line)
		if column == 0 { // the head: CPUs that are online
			column = 1 + slices.Index(fields, fmt.Sprintf("CPU%d", n.cpu))
			continue
		}
		if kind := strings.TrimSuffix(fields[0], ":"); slices.Contains(counters(), kind) {
			all[kind] = n.number(fields[column])
		}
	}
	if len(all) != len(counters()) {
		n.Fatalf("of %v there is only %v", counters(), all)
	}
	return all
}

// pin binds a thread to one CPU.
func pin(tid, cpu int) error {
	var mask unix.CPUSet
	mask.Set(cpu)
	return unix.SchedSetaffinity(tid, &mask)
}
