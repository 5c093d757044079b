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

var (
	handovers = flag.Int("handovers", 10, "how often CPUs are handed over in each mode")
	chosen    = flag.String("modes", "", "modes to count, with commas between; all if empty")
)

// The CPUs of the participants, of 8.
const (
	mount     = "/sys/fs/cgroup"
	host      = cgroup.Path("host")
	near      = cgroup.Path("kubepods/near/c")
	owner     = cgroup.Path("kubepods/owner/c")
	sharers   = 4 // containers in the shared pool, of which one spins
	onlyHosts = "0-1"
)

func wide() cpuset.Set       { return cpuset.Range(2, 5) } // the shared pool without the owner
func narrow() cpuset.Set     { return cpuset.Range(2, 3) } // with it
func nextToList() cpuset.Set { return cpuset.Of(2) }       // next to a fixed list
func spare() cpuset.Set      { return cpuset.Of(3) }       // of the fixed list, without an owner
func owned() cpuset.Set      { return cpuset.Range(4, 5) }
func nearSet() cpuset.Set    { return cpuset.Range(6, 7) }

// mode is a way in which CPUs are handed over, and protected.
type mode struct {
	name  string
	typ   cgroup.PartitionType
	fixed bool // the owner's CPUs are free without it; otherwise the shared pool has them
	park  bool // free CPUs are parked
}

func modes() []mode {
	return []mode{
		{"cpuset", cgroup.MemberPartition, false, false},
		{"root", cgroup.RootPartition, false, false},
		{"isolated", cgroup.IsolatedPartition, false, false},
		{"fixed-root", cgroup.RootPartition, true, false},
		{"parked-root", cgroup.RootPartition, true, true},
		{"parked-isolated", cgroup.IsolatedPartition, true, true},
	}
}

// TestDisturbance counts events on the CPU of a busy neighbour while an owner starts and stops. The test makes the daemon's writes in the
// daemon's order, without a container runtime. It compares each mode with an equally long time without writes, at most a minute.
func TestDisturbance(t *testing.T) {
	k := newKernel(t)
	for _, m := range modes() {
		if *chosen != "" && !slices.Contains(strings.Split(*chosen, ","), m.name) {
			continue
		}
		if m.typ != cgroup.MemberPartition && !k.partitions.Remote {
			t.Fatalf("kernel %s has no remote partitions", k.release)
		}
		n := &neighbour{T: t, pid: k.nearPID, cpu: nearSet().Last()}
		k.begin(m)
		before, begin := n.counters(), time.Now()
		for range *handovers {
			k.come(m)
			k.gone(m)
		}
		took := time.Since(begin)
		with := n.since(before)

		before = n.counters()
		rest := min(took, time.Minute)
		<-time.After(rest)
		t.Logf("%s, kernel %s: %d CPU handovers and back in %v, without any %v", m.name, k.release, *handovers, took.Round(time.Second), rest.Round(time.Second))
		without := n.since(before)
		for _, counter := range counters() {
			t.Logf("%s: %-11s %6d with, %6d without", m.name, counter, with[counter], without[counter])
		}
		k.end(m)
	}
}

// begin sets up the cgroups of a mode, without the owner.
func (k *kernel) begin(m mode) {
	k.Helper()
	if m.park {
		if err := k.fs.MakeParking(); err != nil {
			k.Fatal(err)
		}
	}
	if m.fixed {
		k.share(nextToList())
	} else {
		k.share(wide())
	}
	k.partition(m, false, spare().Union(owned()))
}

// end takes the partitions of a mode away.
func (k *kernel) end(m mode) {
	k.Helper()
	k.partition(mode{typ: cgroup.MemberPartition}, false, cpuset.Set{})
	if m.park {
		if err := k.fs.RemoveParking(); err != nil {
			k.Fatal(err)
		}
	}
}

// come gives an owner its CPUs. The shared pool or the parking partition releases them first. Then the owner starts,
// and then it becomes a partition.
func (k *kernel) come(m mode) {
	k.Helper()
	if m.fixed {
		k.partition(m, false, spare())
	} else {
		k.share(narrow())
	}
	if err := os.Mkdir(filepath.Join(mount, string(owner)), 0o755); err != nil {
		k.Fatal(err)
	}
	k.apply(owner, cgroup.FileCPUs, owned().String())
	k.move(k.ownerPID, owner)
	k.partition(m, true, spare())
	if st := k.state(owner); !st.Effective.Equal(owned()) || !st.Partition.Is(m.typ) {
		k.Fatalf("the owner is %s with CPUs %s; want %s with %s", st.Partition, st.Effective, m.typ, owned())
	}
}

// gone ends the owner as a runtime does, which removes its cgroup; then the others get its CPUs back, or they are parked again.
func (k *kernel) gone(m mode) {
	k.Helper()
	k.move(k.ownerPID, host)
	if err := os.Remove(filepath.Join(mount, string(owner))); err != nil {
		k.Fatal(err)
	}
	k.partition(m, false, spare())
	if m.fixed {
		k.partition(m, false, spare().Union(owned()))
	} else {
		k.share(wide())
	}
	if st := k.state(near); !st.Effective.Equal(nearSet()) || !st.Partition.Is(m.typ) {
		k.Fatalf("the neighbour is %s with CPUs %s; want %s with %s", st.Partition, st.Effective, m.typ, nearSet())
	}
}

// share sets the CPUs of the shared pool.
func (k *kernel) share(cpus cpuset.Set) {
	k.Helper()
	for i := range sharers {
		k.apply(sharer(i), cgroup.FileCPUs, cpus.String())
	}
	if st := k.state(sharer(0)); !st.Effective.Equal(cpus) {
		k.Fatalf("CPUs of the shared pool = %s; want %s", st.Effective, cpus)
	}
}

func sharer(i int) cgroup.Path { return cgroup.Path(fmt.Sprintf("kubepods/shared%d/c", i)) }

// partition makes the wanted partitions step by step: the neighbour, the owner with both, and the free CPUs with parking. Other partitions
// must have ended.
func (k *kernel) partition(m mode, both bool, parked cpuset.Set) {
	k.Helper()
	in := cgroup.PartitionInput{Kernel: k.partitions, Online: cpuset.Range(0, 7), Housekeeping: cpuset.Range(0, 2)}
	add := func(p cgroup.Path, typ cgroup.PartitionType, cpus cpuset.Set, enabled bool) {
		if enabled {
			in.Desired = append(in.Desired, cgroup.DesiredPartition{Path: p, Type: typ, CPUs: cpus})
		} else {
			in.Former = append(in.Former, p)
		}
	}
	some := m.typ != cgroup.MemberPartition
	add(near, m.typ, nearSet(), some)
	add(owner, m.typ, owned(), some && both)
	add(cgroup.Parking, cgroup.IsolatedPartition, parked, m.park)
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		var err error
		if in.View, err = k.fs.ReadPartitions([]cgroup.Path{near, owner, cgroup.Parking}); err != nil {
			k.Fatal(err)
		}
		step := cgroup.PlanPartitions(in)
		for _, w := range step.Writes {
			if err := k.fs.Apply(w.Write); err != nil {
				k.Fatal(err)
			}
		}
		done := len(step.Writes) == 0 && step.Missing.IsEmpty()
		for _, w := range in.Desired {
			done = done && step.Outcomes[w.Path].Phase == cgroup.PartitionInForce
		}
		if done {
			return
		}
	}
	k.Fatal("the writes of the partitions do not end")
}

// neighbour is the thread that is disturbed, the first of its process.
type neighbour struct {
	*testing.T

	pid, cpu int
}

// counters lists the counters: context switches of the thread (/proc/PID/task/TID/status) and interrupts on its CPU (/proc/interrupts). LOC
// is the timer. The others make the CPU reschedule (RES), call a function (CAL), drop a mapping (TLB) or do its own deferred work (IWI).
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
		n.Fatalf("counters of %v = %v; want all of them", counters(), all)
	}
	return all
}

// pin binds a thread to one CPU.
func pin(tid, cpu int) error {
	var mask unix.CPUSet
	mask.Set(cpu)
	return unix.SchedSetaffinity(tid, &mask)
}
