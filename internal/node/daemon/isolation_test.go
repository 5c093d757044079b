package daemon

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// newPartitionNode returns a node with a kernel that has remote partitions.
func newPartitionNode(t testing.TB, major, minor int, c testnode.RuntimeConfig) *node {
	t.Helper()
	return newNodeOf(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(major, minor), Runtime: c})
}

// modes returns the reported modes of isolation, by container.
func modes(v *telemetry.View) map[string]string {
	all := make(map[string]string)
	for _, c := range v.Containers {
		if c.Isolation != "" {
			all[c.Pod] = c.Isolation
		}
	}
	return all
}

// TestPartitions follows owners from start to end, across a restart of the daemon, on kernels
// with and without the defects of earlier versions.
func TestPartitions(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			if n.Kernel.Settled {
				n.YAML = nodefixture.WithIsolation(nodefixture.PoolsYAML, "auto")
			}
			r := n.start()
			balanced := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			isolated := n.RunContainer(n.RunPod("b", "default", "guaranteed", 1, map[string]string{"cpu-load-balancing.crio.io": "disable"}), "app", nodefixture.WholeCPUs(1))
			shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.AwaitPartition(balanced, cgroup.RootPartition)
			n.AwaitPartition(isolated, cgroup.IsolatedPartition)
			n.AwaitCPUs(shared, "2-3")
			r.quiet()
			n.CheckOccupants()
			r.view("modes", func(v *telemetry.View) bool {
				return modes(v)["a"] == "partition-root" && modes(v)["b"] == "partition-isolated" && len(modes(v)) == 2 &&
					v.Partitions["root"] == 1 && v.Partitions["isolated"] == 1 && len(v.Problems) == 0
			})
			if p := n.preview(); len(p.Plan.Problems) > 0 {
				t.Errorf("plan reports %v", p.Plan.Problems)
			}
			if root := n.RootCPUs(); root.Overlaps(n.State(balanced).CPUs) || !root.Overlaps(cpuset.Of(0, 1)) {
				t.Errorf("the root has CPUs %s", root)
			}
			r.stop()
			writes := len(n.Tree.Writes())
			r = n.start() // which recognizes its partitions
			r.quiet()
			if more := n.Tree.Writes()[writes:]; len(more) > 0 {
				t.Errorf("a daemon that starts again writes %v", more)
			}
			if err := n.Runtime.StopPod(n.PodOf(balanced)); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			own := n.State(isolated).CPUs
			n.Eventually("lists of the rest alone", func() bool {
				r.requestList()
				for _, list := range n.ExclusiveLists() {
					if list != own.String() {
						return false
					}
				}
				return len(n.ExclusiveLists()) == 3 && n.RootCPUs().Equal(cpuset.Range(0, 7).Difference(own))
			})
			r.stop()
			report, err := n.restore()
			if err != nil || len(n.ExclusiveLists()) > 0 || !n.RootCPUs().Equal(cpuset.Range(0, 7)) || !n.State(isolated).Partition.Is(cgroup.MemberPartition) {
				t.Errorf("after restore: %+v, %v; lists %v, root %s", report, err, n.ExclusiveLists(), n.RootCPUs())
			}
			if n.Tree.Crashed() || !n.Tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.Tree.Crashed(), n.Tree.Leaked())
			}
		})
	}
}

// TestPartitionsOfIsolatedCPUs checks that partitions on CPUs of isolcpus= are isolated where
// the kernel allows no other type, and that partitions on a mix of CPUs are refused there.
func TestPartitionsOfIsolatedCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		minor     int
		want, mix cgroup.PartitionType
	}{"6.12": {12, cgroup.RootPartition, cgroup.RootPartition}, "7.0": {0, cgroup.IsolatedPartition, cgroup.MemberPartition}} {
		t.Run(name, func(t *testing.T) {
			k := nodefixture.KernelLike(map[bool]int{true: 7, false: 6}[c.minor == 0], c.minor)
			k.Isolated = cpuset.Range(4, 6)
			n := newNodeOn(t, k)
			isolated := nodefixture.Sysfs(8)
			isolated["devices/system/cpu/isolated"] = &fstest.MapFile{Data: []byte("4-6\n")}
			var err error
			if n.Topology, err = topology.Read(isolated); err != nil {
				t.Fatal(err)
			}
			n.CPUs.Set(n.Topology)
			n.YAML = nodefixture.WithPartitions(n.YAML)
			r := n.start()
			n.AwaitPartition(n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2)), c.want)
			mixed := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.AwaitCPUs(mixed, "6-7")
			r.view("the reason", func(v *telemetry.View) bool {
				return v.Problems["NoPartition"] == map[bool]int{true: 1, false: 0}[c.mix == cgroup.MemberPartition]
			})
			// A refused partition is tried again and again. In between it is invalid for a
			// moment.
			n.Eventually("on CPUs 6-7 it is "+string(c.mix), func() bool { return n.State(mixed).Partition.Is(c.mix) })
			n.CheckOccupants()
		})
	}
}

// TestPartitionBeforeEntrypoint checks that with NRI a container is a partition before its
// first instruction.
func TestPartitionBeforeEntrypoint(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	r := n.start()
	r.connected()
	id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	if st := n.State(id); !st.Partition.Is(cgroup.RootPartition) || st.Effective.Len() != 2 {
		t.Errorf("the entrypoint began in %+v", st)
	}
	r.quiet()
	n.CheckOccupants()
}

// TestPartitionIsRepaired checks that external changes of a partition are repaired. Otherwise
// cpusets alone keep the CPUs exclusive, and the reason is reported.
func TestPartitionIsRepaired(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			r := n.start()
			pod := n.RunPod("a", "default", "guaranteed", 2, nil)
			id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
			n.AwaitPartition(id, cgroup.RootPartition)
			r.quiet()
			scope := n.Runtime.Cgroup(id)
			for file, value := range map[string]string{
				scope + "/cpuset.cpus.partition": "member", string(cgroup.Path(scope).Parent()) + "/cpuset.cpus.exclusive": "\n",
				"kubepods.slice/cpuset.cpus.exclusive": "\n",
			} {
				if err := n.Tree.Write(file, value); err != nil {
					t.Fatal(err)
				}
				r.quiet()
				n.AwaitPartition(id, cgroup.RootPartition)
				n.Eventually("lists", func() bool { return len(n.ExclusiveLists()) == 3 })
			}
			if leaked := n.Tree.Leaked(); !leaked.IsEmpty() {
				t.Errorf("CPUs %s are lost", leaked)
			}
			other := string(cgroup.Path(scope).Parent().Join("other"))
			n.Tree.MkdirAll(other)
			if n.Kernel.Settled {
				if err := n.Tree.Write(other+"/cpuset.cpus", "0-7"); err != nil {
					t.Fatal(err)
				}
				r.quiet()
				n.AwaitPartition(id, cgroup.RootPartition)
				return
			}
			// Otherwise the daemon soon corrects the CPUs of the sibling, and the partition returns
			// before the test sees the refusal.
			if err := n.Tree.Insist(other+"/cpuset.cpus", "0-7"); err != nil {
				t.Fatal(err)
			}
			r.view("refused", func(v *telemetry.View) bool { return modes(v)["a"] == "cpuset" && v.Problems["NoPartition"] == 1 })
			if st := n.State(id); !st.Partition.Is(cgroup.MemberPartition) || !st.Effective.Equal(st.CPUs) || len(n.ExclusiveLists()) > 0 {
				t.Errorf("a broken partition is left as %+v, lists %v", st, n.ExclusiveLists())
			}
			if err := n.Tree.Insist(other+"/cpuset.cpus", ""); err != nil {
				t.Fatal(err)
			}
			if err := n.Tree.Write(other+"/cpuset.cpus", "0-1"); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			n.AwaitPartition(id, cgroup.RootPartition)
			if n.Tree.Crashed() {
				t.Error("the kernel has crashed")
			}
		})
	}
}

// TestLostJournalOfPartitions checks that a daemon without its journal records the partitions
// that it finds. Restore ends them, and the next daemon ends the partitions that it does not plan.
// Exclusive lists that were cleared in between cost no CPU.
func TestLostJournalOfPartitions(t *testing.T) {
	for name, found := range map[string]bool{"owner": true, "owner no more": false} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			r := n.start()
			id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			n.AwaitPartition(id, cgroup.RootPartition)
			r.quiet()
			r.stop()
			if err := os.Remove(n.Host().JournalFile); err != nil {
				t.Fatal(err)
			}
			if !found {
				n.YAML = strings.Replace(nodefixture.WithPartitions(nodefixture.PoolsYAML), "cpus: 4-7", "cpus: \"7\"", 1)
			}
			r = n.start()
			r.quiet()
			if found {
				n.Eventually("it is in the journal", func() bool {
					return slices.ContainsFunc(n.Journal().Originals, func(o undo.Original) bool { return o.File == cgroup.FilePartition })
				})
			} else {
				n.Eventually("no partition", func() bool { return n.State(id).Partition.Is(cgroup.MemberPartition) && len(n.ExclusiveLists()) == 0 })
			}
			r.stop()
			if err := n.Tree.Write("kubepods.slice/cpuset.cpus.exclusive", "\n"); err != nil {
				t.Fatal(err)
			}
			report, err := n.restore()
			if err != nil || len(n.ExclusiveLists()) > 0 || !n.RootCPUs().Equal(cpuset.Range(0, 7)) || !n.Tree.Leaked().IsEmpty() {
				t.Errorf("after restore: %+v, %v; lists %v, root %s, lost %s", report, err, n.ExclusiveLists(), n.RootCPUs(), n.Tree.Leaked())
			}
		})
	}
}

// TestLostJournalOfPartitionsThatAreOver checks that exclusive lists without a partition and
// without a journal prevent no partition.
func TestLostJournalOfPartitionsThatAreOver(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	r := n.start()
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	n.AwaitPartition(n.RunContainer(pod, "app", nodefixture.WholeCPUs(2)), cgroup.RootPartition)
	r.quiet()
	r.stop()
	if err := errors.Join(os.Remove(n.Host().JournalFile), n.Runtime.StopPod(pod), n.Runtime.RemovePod(pod)); err != nil {
		t.Fatal(err)
	}
	if len(n.ExclusiveLists()) == 0 {
		t.Fatal("the kernel has trimmed the lists")
	}
	n.YAML = strings.Replace(n.YAML, "guaranteed:\n", "guaranteed:\n  park: true\n", 1)
	n.start().view("all is parked", func(v *telemetry.View) bool { return v.Parked.Equal(cpuset.Range(4, 7)) && len(v.Problems) == 0 })
}

// TestPartitionsOfOthers checks that a daemon with its journal does not take a container's
// partition for its own.
func TestPartitionsOfOthers(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	r := n.start()
	id := n.RunContainer(n.RunPod("b", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.AwaitCPUs(id, "2-3") // so the journal contains the container
	r.quiet()
	r.stop()
	scope := cgroup.Path(n.Runtime.Cgroup(id))
	var above []cgroup.Path
	for p := scope; p != ""; p = p.Parent() {
		above = append(above, p)
	}
	for _, p := range slices.Backward(above) {
		if err := n.Tree.Write(string(p)+"/cpuset.cpus.exclusive", "7"); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Tree.Write(string(scope)+"/cpuset.cpus.partition", "isolated"); err != nil {
		t.Fatal(err)
	}
	n.YAML = nodefixture.WithPartitions(n.YAML)
	n.start().view("told", func(v *telemetry.View) bool { return v.Problems["ForeignPartition"] == 1 })
	if got := n.State(id).Partition; !got.Is(cgroup.IsolatedPartition) {
		t.Errorf("the partition of somebody else is %s now", got)
	}
}

// TestRestartWithPreviousCgroup checks a container that starts again while the cgroup of its
// last instance exists, which is a partition with the same CPUs. That partition ends first:
// before 7.0 the kernel would lose the CPUs with the cgroup. The container becomes a partition
// afterwards. The resync is far away.
func TestRestartWithPreviousCgroup(t *testing.T) {
	for _, nri := range []bool{false, true} {
		for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
			t.Run(fmt.Sprintf("%s nri=%t", name, nri), func(t *testing.T) {
				k := nodefixture.KernelLike(kernel[0], kernel[1])
				k.Linger = true
				n := newNodeOf(t, nodefixture.Spec{Kernel: k, Runtime: testnode.RuntimeConfig{NRI: nri}})
				n.YAML = nodefixture.WithPartitions(n.YAML)
				r := n.start()
				if nri {
					r.connected()
				}
				pod := n.RunPod("a", "default", "guaranteed", 2, nil)
				old := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
				n.AwaitPartition(old, cgroup.RootPartition)
				r.quiet()
				if err := n.Runtime.StopContainer(old); err != nil {
					t.Fatal(err)
				}
				again := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
				n.AwaitCPUs(again, "4-5")
				r.quiet()
				scope := n.Runtime.Cgroup(old)
				if err := n.Tree.Remove(scope); err != nil {
					t.Fatal(err)
				}
				n.AwaitPartition(again, cgroup.RootPartition)
				if leaked := n.Tree.Leaked(); !leaked.IsEmpty() || n.Tree.Crashed() {
					t.Errorf("leaked: %s, crashed: %t", leaked, n.Tree.Crashed())
				}
				n.CheckOccupants()
			})
		}
	}
}

// TestPartitionsWithoutOthers checks partitions while only their own CPUs are online. The
// kernel then lets all tasks run on them without a notice. When other CPUs are online again,
// the owner has its CPUs alone.
func TestPartitionsWithoutOthers(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.YAML = nodefixture.WithPartitions(n.YAML)
			r := n.start()
			id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(4))
			shared := n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.AwaitPartition(id, cgroup.RootPartition)
			n.AwaitCPUs(shared, "2-3")
			r.quiet()
			n.SetOnline(cpuset.Range(4, 7))
			r.view("the owner gives one up", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeShort)] == 1 })
			n.AwaitCPUs(shared, "7")
			r.quiet()
			n.SetOnline(nodefixture.AllCPUsBut())
			exclusive := func() {
				t.Helper()
				n.AwaitCPUs(shared, "2-3")
				n.Eventually("a partition that is one", func() bool {
					st := n.State(id)
					return st.Partition.Valid() && st.Effective.Equal(cpuset.Range(4, 7)) && !n.RootCPUs().Overlaps(st.Effective)
				})
				r.quiet()
				n.CheckOccupants()
			}
			exclusive()
			r.stop()
			n.SetOnline(cpuset.Range(4, 7))
			n.SetOnline(nodefixture.AllCPUsBut())
			if st := n.State(id); !st.Partition.Valid() || !n.RootCPUs().Overlaps(st.Effective) {
				t.Fatalf("it is %+v, the root has %s", st, n.RootCPUs())
			}
			r = n.start()
			exclusive()
			if leaked := n.Tree.Leaked(); !leaked.IsEmpty() || n.Tree.Crashed() {
				t.Errorf("leaked: %s, crashed: %t", leaked, n.Tree.Crashed())
			}
		})
	}
}

// TestPartitionContest checks that the daemon stops its repairs of a partition that another
// process ends again and again, and that a problem reports it. The container stays on its CPUs.
func TestPartitionContest(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitPartition(id, cgroup.RootPartition)
	r.quiet()
	on, ended := n.State(id).CPUs, 0
	r.view("contested", func(v *telemetry.View) bool {
		contested := v.Problems[string(retry.CodeContested)] == 1
		if !contested && n.State(id).Partition.Valid() {
			ended++
			if err := n.Tree.Write(n.Runtime.Cgroup(id)+"/cpuset.cpus.partition", "member"); err != nil {
				t.Fatal(err)
			}
		}
		return contested
	})
	if ended < retry.MaxRepairs || ended > 3*retry.MaxRepairs { // some are not noticed
		t.Errorf("ended %d times before it is left alone; want about %d", ended, retry.MaxRepairs)
	}
	if got := n.State(id); !got.Effective.Equal(on) || got.Partition.Valid() {
		t.Errorf("while it is left alone it is on %s, %s; want %s, member", got.Effective, got.Partition, on)
	}
}

// TestLeakedCPUs checks that CPUs which the kernel has lost are reported and not allocated.
func TestLeakedCPUs(t *testing.T) {
	n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	r := n.start()
	pod := n.RunPod("a", "default", "guaranteed", 2, nil)
	id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	n.AwaitPartition(id, cgroup.RootPartition)
	r.quiet()
	lost := n.State(id).CPUs
	r.stop()
	// While no daemon runs, nothing repairs the partition before its cgroup is removed.
	sibling := string(cgroup.Path(n.Runtime.Cgroup(id)).Parent().Join("other"))
	n.Tree.MkdirAll(sibling)
	if err := n.Tree.Write(sibling+"/cpuset.cpus", "0-7"); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if leaked := n.Tree.Leaked(); !leaked.Equal(lost) {
		t.Fatalf("leaked: %s, want %s", leaked, lost)
	}
	r = n.start()
	r.viewWithin(time.Minute, "CPUs held for lost", func(v *telemetry.View) bool { return v.Leaked.Equal(lost) && v.Problems["LeakedCPUs"] == 1 })
	other := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitPartition(other, cgroup.RootPartition)
	if cpus := n.State(other).CPUs; cpus.Overlaps(lost) {
		t.Errorf("a container was given CPUs %s, of which %s are lost", cpus, lost)
	}
	third := n.RunContainer(n.RunPod("c", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.AwaitCPUs(third, "2-3") // no other CPUs are free
}

// TestNoPartitions checks that cpusets keep containers apart on kernels without partitions.
func TestNoPartitions(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		yaml         string
		problems     int
	}{
		"asked for, old kernel": {6, 8, nodefixture.WithPartitions(nodefixture.PoolsYAML), 1},
		"auto, kernel before":   {6, 12, nodefixture.WithIsolation(nodefixture.PoolsYAML, "auto"), 0},
		"switched off":          {7, 0, nodefixture.WithIsolation(nodefixture.PoolsYAML, "cpuset"), 0},
		"default":               {7, 0, nodefixture.PoolsYAML, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, c.major, c.minor, testnode.RuntimeConfig{})
			n.YAML = c.yaml
			r := n.start()
			id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
			r.view("cpuset", func(v *telemetry.View) bool {
				return modes(v)["a"] == "cpuset" && v.Problems["NoPartitions"] == c.problems
			})
			r.quiet()
			n.CheckOccupants()
			if st := n.State(id); !st.Partition.Is(cgroup.MemberPartition) || len(n.ExclusiveLists()) > 0 {
				t.Errorf("it is a partition: %+v", st)
			}
		})
	}
}

// TestPartitionsSwitchedOff checks that a configuration without partitions ends all of them.
func TestPartitionsSwitchedOff(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(n.YAML)
	r := n.start()
	id := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitPartition(id, cgroup.RootPartition)
	n.YAML = nodefixture.PoolsYAML
	r.loop.watchers.reload()
	n.Eventually("no partitions", func() bool { return len(n.ExclusiveLists()) == 0 && n.RootCPUs().Equal(cpuset.Range(0, 7)) })
	r.quiet()
	n.CheckOccupants()
}
