package daemon

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// awaitParking waits until exactly these CPUs are parked, by kernel and daemon, and neither root nor
// shared pool has one of them.
func (r *running) awaitParking(cpus string) {
	r.T.Helper()
	r.Eventually("CPUs "+cpus+" parked", func() bool {
		st, _ := r.Parked()
		root := r.RootCPUs()
		v := r.loop.publisher.Metrics()
		return v != nil && st.Partition.Is(cgroup.IsolatedPartition) && st.Effective.String() == cpus && !root.Overlaps(st.Effective) &&
			v.Parked.Equal(st.Effective) && r.ExclusiveLists()[cgroup.Parking] == cpus && v.Problems["NoParking"] == 0
	})
}

// restored restores the node and checks that no parking is left.
func (n *node) restored() {
	n.T.Helper()
	report, err := n.restore()
	if err != nil || slices.ContainsFunc(report.Differs, func(d undo.Difference) bool { return !d.Harmless }) {
		n.T.Errorf("restore: %+v, %v", report, err)
	}
	n.AwaitNoParking(false)
	if !n.RootCPUs().Equal(cpuset.Range(0, 7)) || len(n.ExclusiveLists()) > 0 {
		n.T.Errorf("after restore the root has %s, lists %v", n.RootCPUs(), n.ExclusiveLists())
	}
	n.CheckKernel()
}

// ofParking returns the originals of the parking cgroups in a journal.
func ofParking(j undo.Document) []undo.Original {
	return slices.DeleteFunc(slices.Clone(j.Originals), func(o undo.Original) bool { return !partition.IsParking(o.Path) })
}

// TestParking follows the free CPUs across daemons, while owners start and end, and to the
// restore.
func TestParking(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		for _, nri := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: " NRI"}[nri], func(t *testing.T) {
				n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{NRI: nri})
				n.YAML = nodefixture.WithParking(n.YAML, "partition")
				r := n.start()
				if nri {
					r.connected()
				}
				r.awaitParking("4-7")
				n.Eventually("it is in the journal", func() bool { return len(ofParking(n.Journal())) == 3 })
				pod := n.RunPod("a", "default", "guaranteed", 2, nil)
				owner := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
				if st := n.State(owner); nri && (!st.Partition.Is(cgroup.RootPartition) || st.Effective.Len() != 2) {
					t.Errorf("the entrypoint began in %+v", st)
				}
				shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
				n.AwaitPartition(owner, cgroup.RootPartition)
				own := n.State(owner).CPUs
				r.awaitParking(cpuset.Range(4, 7).Difference(own).String())
				n.AwaitCPUs(shared, "2-3")
				r.quiet()
				n.CheckOccupants()
				if got := r.loop.publisher.Metrics(); got.Partitions["isolated"] != 0 || got.Partitions["root"] != 1 {
					t.Errorf("partitions of containers: %v", got.Partitions)
				}
				r.stop()
				writes := len(n.Tree.Writes())
				r = n.start()
				r.quiet()
				if more := n.Tree.Writes()[writes:]; len(more) > 0 {
					t.Errorf("a daemon that starts again writes %v", more)
				}
				if err := n.Runtime.StopPod(pod); err != nil {
					t.Fatal(err)
				}
				n.Eventually("all is parked again", func() bool {
					r.requestList()
					st, _ := n.Parked()
					return st.Effective.String() == "4-7"
				})
				r.awaitParking("4-7")
				last := n.RunContainer(n.RunPod("b", "default", "guaranteed", 4, nil), "app", nodefixture.WholeCPUs(4))
				n.AwaitPartition(last, cgroup.RootPartition)
				n.AwaitNoParking(true)
				r.quiet()
				r.stop()
				n.restored()
			})
		}
	}
}

// TestParkingAfterFailedStart checks that a container which was created and never ran does not
// keep CPUs out of the parking.
func TestParkingAfterFailedStart(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	n.YAML = nodefixture.WithParking(n.YAML, "auto")
	r := n.start()
	r.connected()
	r.awaitParking("4-7")
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	if _, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Attempt: n.NextAttempt(pod, "app"), Resources: nodefixture.WholeCPUs(2)}); err != nil {
		t.Fatal(err)
	}
	owner := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.AwaitPartition(owner, cgroup.RootPartition)
	r.awaitParking(cpuset.Range(4, 7).Difference(n.State(owner).CPUs).String())
	r.quiet()
	n.CheckKernel()
}

// TestParkingWithLostJournal checks that a daemon without its journal recognizes the parking by
// its path.
func TestParkingWithLostJournal(t *testing.T) {
	for name, next := range map[string]string{
		"restore": "", "parks": nodefixture.WithParking(nodefixture.PoolsYAML, "partition"), "does not park": nodefixture.WithPartitions(nodefixture.PoolsYAML), "has no partitions": nodefixture.PoolsYAML,
	} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithParking(n.YAML, "partition")
			r := n.start()
			r.awaitParking("4-7")
			r.quiet()
			r.stop()
			if err := os.Remove(n.Host().JournalFile); err != nil {
				t.Fatal(err)
			}
			if next != "" {
				n.YAML = next
				r = n.start()
				if strings.Contains(next, "park:") {
					r.awaitParking("4-7")
					n.Eventually("it is in the journal", func() bool { return len(ofParking(n.Journal())) == 3 })
				} else {
					n.AwaitNoParking(false)
					n.Eventually("it is in no journal", func() bool { return len(ofParking(n.Journal())) == 0 })
				}
				r.stop()
			}
			n.restored()
		})
	}
}

// TestParkingSwitchedOff checks that parking ends and starts again with the configuration.
func TestParkingSwitchedOff(t *testing.T) {
	for name, without := range map[string]string{"no parking": nodefixture.WithPartitions(nodefixture.PoolsYAML), "no partitions": nodefixture.PoolsYAML, "from shared": nodefixture.CarvedYAML} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithParking(n.YAML, "partition")
			r := n.start()
			r.awaitParking("4-7")
			n.YAML = without
			r.loop.watchers.reload()
			n.AwaitNoParking(false)
			r.view("no CPUs parked", func(v *telemetry.View) bool { return v.Parked.IsEmpty() })
			if !n.RootCPUs().Equal(cpuset.Range(0, 7)) {
				t.Errorf("the root has %s; want %s", n.RootCPUs(), cpuset.Range(0, 7))
			}
			n.YAML = nodefixture.WithParking(strings.Replace(nodefixture.PoolsYAML, "cpus: 4-7", "cpus: 5-7", 1), "partition")
			r.loop.watchers.reload()
			r.awaitParking("5-7")
			n.CheckKernel()
		})
	}
}

// TestParkingIsRepaired checks that external changes of the parking are repaired, and that
// offline CPUs are parked when they are back.
func TestParkingIsRepaired(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithParking(n.YAML, "partition")
			r := n.start()
			r.awaitParking("4-7")
			r.quiet()
			for _, w := range [][2]string{
				{"cpupoold/parking/cpuset.cpus.partition", "member"},
				{"cpupoold/parking/cpuset.cpus.partition", "root"},
				{"cpupoold/parking/cpuset.cpus.exclusive", "5"},
				{"cpupoold/cpuset.cpus.exclusive", "\n"},
				{"cpupoold/cpuset.cpus.exclusive", "4"},
			} {
				if err := n.Tree.Write(w[0], w[1]); err != nil {
					t.Fatalf("%s: %v", w, err)
				}
				r.awaitParking("4-7")
				n.Eventually("its list above, too", func() bool { return n.ExclusiveLists()[cgroup.ParkingTop] == "4-7" })
				// The next change comes after the repair. On the older 6.12 of testnode, a change during the repair leaves
				// the partition with fewer CPUs than its list, and the daemon has no remedy for that yet.
				r.quiet()
			}
			if err := n.Tree.Rmdir(string(cgroup.Parking)); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			r.awaitParking("4-7")
			for _, online := range []string{"0-6", "0-3", "0-7"} {
				cpus, err := cpuset.Parse(online)
				if err != nil {
					t.Fatal(err)
				}
				n.SetOnline(cpus)
				if free := cpus.Difference(cpuset.Range(0, 3)); free.IsEmpty() {
					n.Eventually("no partition", func() bool {
						st, _ := n.Parked()
						return st.Partition.Is(cgroup.MemberPartition) && n.ExclusiveLists()[cgroup.Parking] == ""
					})
				} else {
					r.awaitParking(free.String())
				}
			}
			n.CheckKernel()
		})
	}
}

// TestNoParking checks that a problem reports CPUs that cannot be parked, and that owners get
// theirs.
func TestNoParking(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		mode         string
		others       string // cpuset.cpus of an administrator's slice
	}{
		"old kernel":           {6, 8, "partition", ""},
		"auto, kernel before":  {6, 12, "auto", ""},
		"CPUs of somebody's":   {7, 0, "auto", "6-7"},
		"CPUs of another kind": {6, 12, "partition", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, c.major, c.minor, testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithParking(n.YAML, c.mode)
			n.Tree.MkdirAll("admin.slice")
			if c.others != "" {
				if err := n.Tree.Write("admin.slice/cpuset.cpus", c.others); err != nil {
					t.Fatal(err)
				}
			}
			r := n.start()
			r.view("told", func(v *telemetry.View) bool { return v.Problems["NoParking"] == 1 && v.Parked.IsEmpty() })
			id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.Eventually("CPUs of its own", func() bool {
				return n.State(id).Effective.Len() == 2 && n.State(id).CPUs.IsSubsetOf(cpuset.Range(4, 7))
			})
			if c.others == "" {
				return
			}
			if err := n.Tree.Write("admin.slice/cpuset.cpus", "0-7"); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			r.awaitParking(cpuset.Range(4, 7).Difference(n.State(id).CPUs).String())
		})
	}
}

// TestParkingIsQuiet checks that free CPUs are parked after the quiet period, or after the end
// of the last owner. CPUs of a new owner leave the parking at once, and a daemon that starts
// keeps parked CPUs.
func TestParkingIsQuiet(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithQuiet(nodefixture.WithParking(n.YAML, "auto"), "1h")
	r := n.start()
	r.awaitParking("4-7")
	stays, goes := n.RunPod("a", "default", "guaranteed", 1, nil), n.RunPod("b", "default", "guaranteed", 2, nil)
	n.AwaitPartition(n.RunContainer(stays, "app", nodefixture.WholeCPUs(1)), cgroup.RootPartition)
	n.AwaitPartition(n.RunContainer(goes, "app", nodefixture.WholeCPUs(2)), cgroup.RootPartition)
	left, _ := n.Parked()
	if left.Effective.Len() != 1 {
		t.Fatalf("beside 3 CPUs of owners %s are parked", left.Effective)
	}
	if err := n.Runtime.StopPod(goes); err != nil {
		t.Fatal(err)
	}
	r.requestList()
	waits := func(v *telemetry.View) bool { return v.Quiet["cpus"] == 2 && v.Parked.Equal(left.Effective) }
	r.view("two CPUs wait", waits)
	r.quiet()
	r.stop()
	r = n.start()
	r.view("two CPUs wait still", waits)
	r.awaitParking(left.Effective.String())
	if err := n.Tree.Write(string(cgroup.Parking.Join(cgroup.FilePartition)), "member"); err != nil {
		t.Fatal(err)
	}
	r.awaitParking(left.Effective.String())
	with := n.YAML
	n.YAML = strings.Replace(with, "park: true", "park: false", 1)
	r.loop.watchers.reload()
	r.view("nothing is to be parked", func(v *telemetry.View) bool { return v.Quiet["cpus"] == 0 && v.Parked.IsEmpty() })
	n.YAML = with
	r.loop.watchers.reload()
	r.view("three CPUs wait", func(v *telemetry.View) bool { return v.Quiet["cpus"] == 3 && v.Parked.IsEmpty() })
	if err := n.Runtime.StopPod(stays); err != nil {
		t.Fatal(err)
	}
	n.Eventually("all is parked", func() bool {
		r.requestList()
		st, _ := n.Parked()
		return st.Effective.String() == "4-7"
	})
	r.view("nothing waits", func(v *telemetry.View) bool { return v.Quiet["cpus"] == 0 })
	n.CheckKernel()
}

// TestParkedCPUsAreNotGiven checks that no reply to the runtime has CPUs that the kernel still
// keeps in the parking.
func TestParkedCPUsAreNotGiven(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	n.YAML = nodefixture.WithParking(n.YAML, "auto")
	r := n.start()
	r.connected()
	r.awaitParking("4-7")
	r.quiet()
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		if strings.HasPrefix(w.Name, string(cgroup.ParkingTop)+"/") {
			return syscall.EIO
		}
		return nil
	})
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	var err error
	r.skipDuring(waits.Timeout, "an answer", func() {
		_, err = n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: "app", Resources: nodefixture.WholeCPUs(2)})
	})
	if err == nil || !strings.Contains(err.Error(), string(cgroup.Parking)) {
		t.Errorf("created while its CPUs are parked: %v", err)
	}
	n.Tree.Intercept(nil)
	r.skip(10 * waits.Timeout) // the kubelet tries again later
	id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	if st := n.State(id); !st.Partition.Is(cgroup.RootPartition) || st.Effective.Len() != 2 {
		t.Errorf("the entrypoint began in %+v", st)
	}
	r.awaitParking(cpuset.Range(4, 7).Difference(n.State(id).CPUs).String())
	n.CheckKernel()
}
