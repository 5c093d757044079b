//go:build guest

package daemon_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/walk"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// partitionsToo is the flag that TestKernels sets.
var partitionsToo = flag.Bool("partitions", false, "run TestHandoverDeaths, and TestHotplug and TestResize with partitions, too")

// partitions returns the partition rules of this kernel.
func (n *node) partitions() cgroup.PartitionKernel {
	n.Helper()
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		n.Fatal(err)
	}
	kernel, err := cgroup.ParsePartitionKernel(unix.ByteSliceToString(uts.Release[:]))
	if err != nil {
		n.Fatal(err)
	}
	return kernel
}

// needsPartitions skips a test on kernels without partitions. Only the kernel's version decides: on a new one the test runs, or
// fails.
func (n *node) needsPartitions() {
	n.Helper()
	if !n.partitions().Remote {
		n.Skip("the kernel is older than 6.11: no partitions below cgroups that are none")
	}
}

// isolating is hourly with partitions: with auto if that makes them, and otherwise with
// partition.
func (n *node) isolating() string {
	n.Helper()
	mode := "partition"
	if n.partitions().Settled {
		mode = "auto"
	}
	return strings.Replace(hourly, "cpus: 4-7\n", "cpus: 4-7\n  isolation: "+mode+"\n", 1)
}

// mode is a configuration of the pool of exclusive CPUs.
type mode struct {
	name   string
	config string
	typ    cgroup.PartitionType // that owners are
}

// modes returns the partition modes of this kernel that the test uses.
func (n *node) modes() []mode {
	n.Helper()
	all := []mode{{"cpuset", hourly, cgroup.MemberPartition}}
	if *partitionsToo && n.partitions().Remote {
		all = append(all, mode{"partition", n.isolating(), cgroup.RootPartition})
	}
	return all
}

// parted checks that a container is a partition with exclusive CPUs in the kernel, and that it can run only there.
func (r *runtimeNode) parted(p pod, typ cgroup.PartitionType, cpus string) error {
	st, err := r.fs.Read(p.path)
	if err != nil {
		return err
	}
	root, err := r.fs.Read("")
	switch {
	case err != nil:
		return err
	case !st.Partition.Is(typ):
		return fmt.Errorf("%s is %s; want %s", p.name, st.Partition, typ)
	case root.Effective.Overlaps(st.Effective):
		return fmt.Errorf("%s has CPUs %s, and the root %s", p.name, st.Effective, root.Effective)
	}
	return r.allowed(p, cpus)
}

// is checks that a container runs on these CPUs and has the type: a partition, as parted checks it, or a
// member.
func (r *runtimeNode) is(p pod, typ cgroup.PartitionType, cpus string) error {
	if typ != cgroup.MemberPartition {
		return r.parted(p, typ, cpus)
	}
	st, err := r.fs.Read(p.path)
	if err == nil && !st.Partition.Is(typ) {
		err = fmt.Errorf("%s is %s; want %s", p.name, st.Partition, typ)
	}
	return errors.Join(err, r.allowed(p, cpus))
}

// lists are the exclusive lists of kubepods.slice and all in it that are not empty.
func (n *node) lists() map[cgroup.Path]string {
	n.Helper()
	all := make(map[cgroup.Path]string)
	if err := walk.Cgroups(n.fs, "kubepods.slice", func(p cgroup.Path) error {
		if b, err := n.fs.ReadFile(p, cgroup.FileExclusive); err == nil && strings.TrimSpace(string(b)) != "" {
			all[p] = strings.TrimSpace(string(b))
		}
		return nil
	}); err != nil {
		n.Fatal(err)
	}
	return all
}

// rootHas waits until the root has the CPUs.
func (n *node) rootHas(cpus cpuset.Set) {
	n.Helper()
	n.eventually("the root has CPUs "+cpus.String(), func() error {
		st, err := n.fs.Read("")
		if err == nil && !st.Effective.Equal(cpus) {
			err = fmt.Errorf("it has %s", st.Effective)
		}
		return err
	})
}

// outsider is a process of the host's that asks for CPUs.
type outsider struct {
	*node
	pid int
}

func (n *node) outsider() outsider {
	n.Helper()
	cmd := exec.Command("sleep", "infinity")
	if err := cmd.Start(); err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no other end
		_ = cmd.Wait()
	})
	return outsider{n, cmd.Process.Pid}
}

// asks returns the kernel's answer.
func (o outsider) asks(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(o.pid, &set)
}

// keptOff checks that the process cannot run on any of the CPUs.
func (o outsider) keptOff(when string, cpus cpuset.Set) {
	o.Helper()
	for cpu := range cpus.All() {
		if err := o.asks(cpu); !errors.Is(err, unix.EINVAL) {
			o.Errorf("%s a process of the host asks for CPU %d: %v; want EINVAL\n%s", when, cpu, err, o.evidence())
		}
	}
}

// notRestarted has a daemon that dies stay dead.
func (n *node) notRestarted() {
	n.Helper()
	const dropIn = "/run/systemd/system/cpupoold.service.d/dies.conf"
	n.write(dropIn, "[Service]\nRestart=no\n")
	n.run("systemctl", "daemon-reload")
	n.Cleanup(func() {
		if err := os.Remove(dropIn); err != nil {
			n.Error(err)
		}
		n.run("systemctl", "daemon-reload")
	})
}

// TestPartition follows owners in partitions: before their first instruction, after writes by other processes, after a kill of the daemon, and
// after restore. The resync is an hour away.
func TestPartition(t *testing.T) {
	n := newNode(t)
	n.needsPartitions()
	r := n.withoutKubelet()
	n.notRestarted()
	n.startDaemon(n.isolating())
	n.nriConnected()
	all := cpuset.Range(0, 7)
	outside := n.outsider()
	if err := outside.asks(4); err != nil {
		t.Fatalf("CPU 4 is free, and a process of the host does not get it: %v", err)
	}

	owner := r.beginsParted(2000, "4-5")
	outside.keptOff("with the daemon alive", cpuset.Of(4, 5))
	isolated := r.mustStart(1000, "default", map[string]string{"cpu-load-balancing.crio.io": "disable"})
	r.eventually("the isolated one", func() error { return r.parted(isolated, cgroup.IsolatedPartition, "6") })
	shared := r.mustStart(500, "default", nil)
	r.eventually("the shared one", func() error { return r.allowed(shared, "2-3") })
	n.rootHas(cpuset.Of(0, 1, 2, 3, 7))

	for _, w := range []struct {
		path        cgroup.Path
		file, value string
	}{
		{owner.path, cgroup.FilePartition, "member"},
		{owner.path.Parent(), cgroup.FileExclusive, cgroup.ValueNone},
		{"kubepods.slice", cgroup.FileExclusive, cgroup.ValueNone},
	} {
		if err := n.fs.Write(w.path, w.file, w.value); err != nil {
			t.Fatal(err)
		}
		r.eventually(fmt.Sprintf("repair of %s %q", w.file, w.value), func() error {
			if lists := n.lists(); lists["kubepods.slice"] != "4-6" || lists[owner.path.Parent()] != "4-5" {
				return fmt.Errorf("the lists are %v", lists)
			}
			return errors.Join(r.parted(owner, cgroup.RootPartition, "4-5"), r.parted(isolated, cgroup.IsolatedPartition, "6"))
		})
	}

	n.run("systemctl", "kill", "-s", "KILL", "cpupoold")
	n.eventually("end of the daemon", func() error {
		if state, _ := n.try("systemctl", "is-active", "cpupoold"); strings.TrimSpace(state) != "failed" {
			return errors.New("its unit is " + state)
		}
		return nil
	})
	outside.keptOff("with the daemon dead", cpuset.Of(4, 5, 6))
	n.startDaemon(n.isolating())
	n.nriConnected()
	outside.keptOff("with a new daemon", cpuset.Of(4, 5, 6))
	if err := errors.Join(r.parted(owner, cgroup.RootPartition, "4-5"), r.parted(isolated, cgroup.IsolatedPartition, "6")); err != nil {
		t.Errorf("after the daemon's end: %v", err)
	}
	n.eventually("partitions in the metrics", func() error {
		_, body, err := n.get("/metrics")
		for _, want := range []string{`cpupoold_partitions{state="root"} 1`, `cpupoold_partitions{state="isolated"} 1`, "cpupoold_leaked_cpus 0"} {
			if err == nil && !strings.Contains(body, want) {
				err = errors.New("no " + want)
			}
		}
		return err
	})

	r.removePod(owner)
	n.rootHas(all.Difference(cpuset.Of(6)))
	n.eventually("lists without the CPUs of the ended owner", func() error {
		if lists := n.lists(); len(lists) != 3 || lists["kubepods.slice"] != "6" {
			return fmt.Errorf("they are %v", lists)
		}
		return nil
	})
	next := r.mustStart(3000, "default", nil)
	r.eventually("the next owner of these CPUs", func() error { return r.parted(next, cgroup.RootPartition, "4-5,7") })
	n.quiet()
	n.invariants()

	n.stopDaemon()
	n.run("cpupoold", "restore")
	if lists := n.lists(); len(lists) > 0 {
		t.Errorf("exclusive lists after restore = %v; want none", lists)
	}
	n.rootHas(all)
	for _, p := range []pod{isolated, next} {
		if st, err := n.fs.Read(p.path); err != nil || !st.Partition.Is(cgroup.MemberPartition) {
			t.Errorf("partition of %s after restore = %s, %v; want member", p.name, st.Partition, err)
		}
	}
}

// inPartition is the log message about a container whose cgroup has become a partition.
const inPartition = "the kernel keeps other tasks off its CPUs"

// beginsParted starts a container that is a partition before its first instruction. It starts another one if the daemon reports that this
// machine was too slow for the second that the runtime waits.
func (r *runtimeNode) beginsParted(milli int64, cpus string) pod {
	r.Helper()
	const late = "container starts before its cpuset partition exists: the write takes longer than the runtime waits"
	for range 10 {
		p, err := r.startReporter(milli)
		if err != nil {
			r.Fatal(err)
		}
		err = r.parted(p, cgroup.RootPartition, cpus)
		says := func(msg string) bool {
			return slices.ContainsFunc(r.records(msg), func(rec map[string]any) bool { return rec["cgroup"] == string(p.path) })
		}
		r.eventually("the daemon's word", func() error { // the journal is written later; after that it contains earlier reports, too
			if !says(inPartition) {
				return errors.New("nothing yet")
			}
			return nil
		})
		told := says(late)
		switch {
		case !told && err != nil:
			r.Fatalf("as soon as it is started: %v\n%s", err, r.evidence())
		case !told:
			r.beganInPartition(p)
			return p
		}
		r.eventually("partition that is late", func() error { return r.parted(p, cgroup.RootPartition, cpus) })
		r.removePod(p)
		r.eventually("CPUs that are free again", func() error {
			if lists := r.lists(); len(lists) > 0 {
				return fmt.Errorf("the lists are %v", lists)
			}
			return nil
		})
	}
	r.Fatalf("of ten containers none was a partition in time\n%s", r.evidence())
	return pod{}
}

// beganInPartition compares two times: when the daemon had read back the partition of a container, and when the process wrote its first line.
func (r *runtimeNode) beganInPartition(p pod) {
	r.Helper()
	r.eventually("report of the container", func() error {
		if w, err := r.reported(p); err != nil || w.cpus == "" {
			return fmt.Errorf("nothing, %w", err)
		}
		return nil
	})
	data, err := os.ReadFile(p.log)
	if err != nil {
		r.Fatal(err)
	}
	stamp, _, _ := strings.Cut(string(data), " ")
	spoke, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil {
		r.Fatal(err)
	}
	for _, rec := range r.records(inPartition) {
		if rec["cgroup"] != string(p.path) {
			continue
		}
		if at, err := time.Parse(time.RFC3339Nano, rec["time"].(string)); err != nil || !at.Before(spoke) {
			r.Errorf("partition at %v, first line of its process at %v; %v", at, spoke, err)
		}
		return
	}
	r.Errorf("the daemon does not report the partition\n%s", r.evidence())
}
