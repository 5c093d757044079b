package daemon

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/restore"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// newPartitionNode is a node with a kernel that has remote partitions.
func newPartitionNode(t testing.TB, major, minor int, c testnode.RuntimeConfig) *node {
	t.Helper()
	return newNodeOf(t, kernelLike(major, minor), c)
}

// kernelLike has the rules of a kernel's version, from 6.8 on.
func kernelLike(major, minor int) testnode.CgroupConfig {
	return testnode.CgroupConfig{IdleWeight: 1, ClearPopulated: major >= 7, Partitions: testnode.PartitionsLike(major, minor, 0)}
}

// isolating switches partitions on.
func isolating(yaml string) string { return isolatingBy(yaml, "partition") }

// isolatingBy is a configuration with a value of guaranteed.isolation.
func isolatingBy(yaml, mode string) string {
	return strings.Replace(yaml, "guaranteed:\n", "guaranteed:\n  isolation: "+mode+"\n", 1)
}

// isPartition waits until a container's cgroup is a partition with its CPUs.
func (n *node) isPartition(id string, typ cgroup.PartitionType) {
	n.t.Helper()
	n.eventually("partition "+string(typ), func() bool {
		st := n.state(id)
		return st.Partition.Is(typ) && st.Effective.Equal(st.CPUs)
	})
}

// root is what the root has.
func (n *node) root() cpuset.Set {
	st, err := cgroup.New(n.tree).Read("")
	if err != nil {
		n.t.Fatal(err)
	}
	return st.Effective
}

// lists are the exclusive lists that are not empty, by cgroup.
func (n *node) lists() map[cgroup.Path]string {
	all := make(map[cgroup.Path]string)
	fs := cgroup.New(n.tree)
	_ = fs.Walk("", func(p cgroup.Path) error {
		if b, err := fs.ReadFile(p, cgroup.FileExclusive); err == nil && strings.TrimSpace(string(b)) != "" {
			all[p] = strings.TrimSpace(string(b))
		}
		return nil
	})
	return all
}

// modes are what the daemon says keeps others off, by container.
func modes(v *telemetry.View) map[string]string {
	all := make(map[string]string)
	for _, c := range v.Containers {
		if c.Isolation != "" {
			all[c.Pod] = c.Isolation
		}
	}
	return all
}

// TestPartitions follows owners from birth to end, over a restart of the daemon, on
// kernels with and without the traps.
func TestPartitions(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.yaml = isolating(n.yaml)
			if n.kernel.Settled {
				n.yaml = isolatingBy(poolsYAML, "auto")
			}
			r := n.start()
			balanced := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
			isolated := n.container(n.pod("b", "default", "guaranteed", 1, map[string]string{"cpu-load-balancing.crio.io": "disable"}), "app", whole(1))
			shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.isPartition(balanced, cgroup.RootPartition)
			n.isPartition(isolated, cgroup.IsolatedPartition)
			n.runsOn(shared, "2-3")
			r.quiet()
			n.check()
			r.view("modes", func(v *telemetry.View) bool {
				return modes(v)["a"] == "partition-root" && modes(v)["b"] == "partition-isolated" && len(modes(v)) == 2 &&
					v.Partitions["root"] == 1 && v.Partitions["isolated"] == 1 && len(v.Problems) == 0
			})
			if p := n.preview(); len(p.Plan.Problems) > 0 {
				t.Errorf("plan reports %v", p.Plan.Problems)
			}
			if root := n.root(); root.Overlaps(n.state(balanced).CPUs) || !root.Overlaps(cpuset.Of(0, 1)) {
				t.Errorf("the root has CPUs %s", root)
			}
			r.stop()
			writes := len(n.tree.Writes())
			r = n.start() // and knows its partitions
			r.quiet()
			if more := n.tree.Writes()[writes:]; len(more) > 0 {
				t.Errorf("a daemon that starts again writes %v", more)
			}
			if err := n.runtime.StopPod(n.podOf(balanced)); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			own := n.state(isolated).CPUs
			n.eventually("lists of the rest alone", func() bool {
				r.loop.box.Post(relist{})
				for _, list := range n.lists() {
					if list != own.String() {
						return false
					}
				}
				return len(n.lists()) == 3 && n.root().Equal(cpuset.Range(0, 7).Difference(own))
			})
			r.stop()
			h := n.host()
			report, err := restore.HostRestore(&h, t.Context(), n.journal())
			if err != nil || len(n.lists()) > 0 || !n.root().Equal(cpuset.Range(0, 7)) || !n.state(isolated).Partition.Is(cgroup.MemberPartition) {
				t.Errorf("after restore: %+v, %v; lists %v, root %s", report, err, n.lists(), n.root())
			}
			if n.tree.Crashed() || !n.tree.Leaked().IsEmpty() {
				t.Errorf("crashed: %t, leaked: %s", n.tree.Crashed(), n.tree.Leaked())
			}
		})
	}
}

// TestPartitionsOfIsolatedCPUs: on CPUs of isolcpus= a partition is an isolated one where no
// other can be; of whom some CPUs are such it is refused.
func TestPartitionsOfIsolatedCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		minor     int
		want, mix cgroup.PartitionType
	}{"6.12": {12, cgroup.RootPartition, cgroup.RootPartition}, "7.0": {0, cgroup.IsolatedPartition, cgroup.MemberPartition}} {
		t.Run(name, func(t *testing.T) {
			k := kernelLike(map[bool]int{true: 7, false: 6}[c.minor == 0], c.minor)
			k.Isolated = cpuset.Range(4, 6)
			n := newNodeOf(t, k, testnode.RuntimeConfig{})
			isolated := sysfs(eightCPUs)
			isolated["devices/system/cpu/isolated"] = &fstest.MapFile{Data: []byte("4-6\n")}
			var err error
			if n.top, err = topology.Read(isolated); err != nil {
				t.Fatal(err)
			}
			n.cpus.set(n.top)
			n.yaml = isolating(n.yaml)
			r := n.start()
			n.isPartition(n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2)), c.want)
			mixed := n.container(n.pod("b", "default", "guaranteed", 2, nil), "app", whole(2))
			n.runsOn(mixed, "6-7")
			r.view("the reason", func(v *telemetry.View) bool {
				return v.Problems["NoPartition"] == map[bool]int{true: 1, false: 0}[c.mix == cgroup.MemberPartition]
			})
			// What the kernel refuses is tried again and again, and is neither for a moment.
			n.eventually("on CPUs 6-7 it is "+string(c.mix), func() bool { return n.state(mixed).Partition.Is(c.mix) })
			n.check()
		})
	}
}

// TestPartitionBeforeEntrypoint: with NRI the kernel keeps others off before the first
// instruction.
func TestPartitionBeforeEntrypoint(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{NRI: true})
	n.yaml = isolating(n.yaml)
	r := n.start()
	r.connected()
	id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	if st := n.state(id); !st.Partition.Is(cgroup.RootPartition) || st.Effective.Len() != 2 {
		t.Errorf("the entrypoint began in %+v", st)
	}
	r.quiet()
	n.check()
}

// TestPartitionIsRepaired: what others do to a partition is undone, or the CPUs are
// kept by cpusets alone and the reason is told.
func TestPartitionIsRepaired(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.yaml = isolating(n.yaml)
			r := n.start()
			pod := n.pod("a", "default", "guaranteed", 2, nil)
			id := n.container(pod, "app", whole(2))
			n.isPartition(id, cgroup.RootPartition)
			r.quiet()
			scope := n.runtime.Cgroup(id)
			for file, value := range map[string]string{
				scope + "/cpuset.cpus.partition": "member", string(cgroup.Path(scope).Parent()) + "/cpuset.cpus.exclusive": "\n",
				"kubepods.slice/cpuset.cpus.exclusive": "\n",
			} {
				if err := n.tree.Write(file, value); err != nil {
					t.Fatal(err)
				}
				r.quiet()
				n.isPartition(id, cgroup.RootPartition)
				n.eventually("lists", func() bool { return len(n.lists()) == 3 })
			}
			if leaked := n.tree.Leaked(); !leaked.IsEmpty() {
				t.Errorf("CPUs %s are lost", leaked)
			}
			stranger := string(cgroup.Path(scope).Parent().Join("stranger"))
			n.tree.MkdirAll(stranger)
			if err := n.tree.Write(stranger+"/cpuset.cpus", "0-7"); err != nil {
				t.Fatal(err)
			}
			if n.kernel.Settled {
				r.quiet()
				n.isPartition(id, cgroup.RootPartition)
				return
			}
			r.view("refused", func(v *telemetry.View) bool { return modes(v)["a"] == "cpuset" && v.Problems["NoPartition"] == 1 })
			if st := n.state(id); !st.Partition.Is(cgroup.MemberPartition) || !st.Effective.Equal(st.CPUs) || len(n.lists()) > 0 {
				t.Errorf("a broken partition is left as %+v, lists %v", st, n.lists())
			}
			if err := n.tree.Write(stranger+"/cpuset.cpus", "0-1"); err != nil {
				t.Fatal(err)
			}
			r.quiet()
			n.isPartition(id, cgroup.RootPartition)
			if n.tree.Crashed() {
				t.Error("the kernel has crashed")
			}
		})
	}
}

// TestLostJournalOfPartitions: restore takes away what a daemon has found that has lost
// its journal, and the next daemon what is not to be a partition any more. Lists that
// somebody has cleared meanwhile cost no CPU.
func TestLostJournalOfPartitions(t *testing.T) {
	for name, found := range map[string]bool{"owner": true, "owner no more": false} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
			n.yaml = isolating(n.yaml)
			r := n.start()
			id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
			n.isPartition(id, cgroup.RootPartition)
			r.quiet()
			r.stop()
			if err := os.Remove(n.host().Journal); err != nil {
				t.Fatal(err)
			}
			if !found {
				n.yaml = strings.Replace(isolating(poolsYAML), "cpus: 4-7", "cpus: \"7\"", 1)
			}
			r = n.start()
			r.quiet()
			if found {
				n.eventually("it is in the journal", func() bool {
					return slices.ContainsFunc(n.journal().Originals, func(o undo.Original) bool { return o.File == cgroup.FilePartition })
				})
			} else {
				n.eventually("no partition", func() bool { return n.state(id).Partition.Is(cgroup.MemberPartition) && len(n.lists()) == 0 })
			}
			r.stop()
			if err := n.tree.Write("kubepods.slice/cpuset.cpus.exclusive", "\n"); err != nil {
				t.Fatal(err)
			}
			h := n.host()
			report, err := restore.HostRestore(&h, t.Context(), n.journal())
			if err != nil || len(n.lists()) > 0 || !n.root().Equal(cpuset.Range(0, 7)) || !n.tree.Leaked().IsEmpty() {
				t.Errorf("after restore: %+v, %v; lists %v, root %s, lost %s", report, err, n.lists(), n.root(), n.tree.Leaked())
			}
		})
	}
}

// TestLostJournalOfPartitionsThatAreOver: lists of which nobody knows any more are in the
// way of nobody.
func TestLostJournalOfPartitionsThatAreOver(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.yaml = isolating(n.yaml)
	r := n.start()
	pod := n.pod("a", "default", "guaranteed", 2, nil)
	n.isPartition(n.container(pod, "app", whole(2)), cgroup.RootPartition)
	r.quiet()
	r.stop()
	if err := errors.Join(os.Remove(n.host().Journal), n.runtime.StopPod(pod), n.runtime.RemovePod(pod)); err != nil {
		t.Fatal(err)
	}
	if len(n.lists()) == 0 {
		t.Fatal("the kernel has trimmed the lists")
	}
	n.yaml = strings.Replace(n.yaml, "guaranteed:\n", "guaranteed:\n  park: true\n", 1)
	n.start().view("all is parked", func(v *telemetry.View) bool { return v.Parked.Equal(cpuset.Range(4, 7)) && len(v.Problems) == 0 })
}

// TestRestoreTellsOfLostPartitions: what a journal that is lost cannot undo is named, unless
// it cannot be the daemon's, by the configuration or by its place.
func TestRestoreTellsOfLostPartitions(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.yaml = isolating(n.yaml)
	r := n.start()
	id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.isPartition(id, cgroup.RootPartition)
	r.quiet()
	r.stop()
	nested := path.Join(n.runtime.Cgroup(id), "own")
	n.tree.MkdirAll(nested)
	if err := n.tree.Write(path.Join(nested, cgroup.FilePartition), "root"); err != nil {
		t.Fatal(err)
	}
	h, j := n.host(), n.journal()
	report, err := restore.RestoreAs(&h, t.Context(), undo.Document{}, config.IsolationCPUSet, false)
	if err != nil || len(report.Differs) > 0 {
		t.Errorf("where the daemon makes none: %+v, %v", report, err)
	}
	report, err = restore.RestoreAs(&h, t.Context(), undo.Document{}, config.IsolationPartition, false)
	if err != nil || len(report.Differs) != 1 || report.Differs[0].Path != cgroup.Path(n.runtime.Cgroup(id)) || report.Differs[0].Now != "root" {
		t.Errorf("without a journal: %+v, %v; want the partition among what differs", report, err)
	}
	if report, err = restore.RestoreAs(&h, t.Context(), j, config.IsolationPartition, false); err != nil || len(n.lists()) > 0 {
		t.Errorf("with it: %+v, %v; lists %v", report, err, n.lists())
	}
}

// TestPartitionsOfOthers: a daemon that has its journal takes no partition of a
// container that it has not made for one that it has lost.
func TestPartitionsOfOthers(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	r := n.start()
	id := n.container(n.pod("b", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	n.runsOn(id, "2-3") // and so it is in the journal
	r.quiet()
	r.stop()
	scope := cgroup.Path(n.runtime.Cgroup(id))
	var above []cgroup.Path
	for p := scope; p != ""; p = p.Parent() {
		above = append(above, p)
	}
	for _, p := range slices.Backward(above) {
		if err := n.tree.Write(string(p)+"/cpuset.cpus.exclusive", "7"); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.tree.Write(string(scope)+"/cpuset.cpus.partition", "isolated"); err != nil {
		t.Fatal(err)
	}
	n.yaml = isolating(n.yaml)
	n.start().view("told", func(v *telemetry.View) bool { return v.Problems[string(codeForeignPartition)] == 1 })
	if got := n.state(id).Partition; !got.Is(cgroup.IsolatedPartition) {
		t.Errorf("the partition of somebody else is %s now", got)
	}
}

// TestRestartBesideItsLastCgroup: a container begins again while the cgroup of its last
// instance is there still, a partition with the same CPUs: that ends first, since before
// 7.0 the kernel would lose the CPUs with it otherwise. The container is a partition as
// soon as it is out of the way. Resync is far away.
func TestRestartBesideItsLastCgroup(t *testing.T) {
	for _, nri := range []bool{false, true} {
		for name, kernel := range map[string][2]int{"6.11": {6, 11}, "6.12": {6, 12}, "6.18": {6, 18}, "7.0": {7, 0}} {
			t.Run(fmt.Sprintf("%s nri=%t", name, nri), func(t *testing.T) {
				k := kernelLike(kernel[0], kernel[1])
				k.Linger = true
				n := newNodeOf(t, k, testnode.RuntimeConfig{NRI: nri})
				n.yaml = isolating(n.yaml)
				r := n.start()
				if nri {
					r.connected()
				}
				pod := n.pod("a", "default", "guaranteed", 2, nil)
				old := n.container(pod, "app", whole(2))
				n.isPartition(old, cgroup.RootPartition)
				r.quiet()
				if err := n.runtime.StopContainer(old); err != nil {
					t.Fatal(err)
				}
				again := n.container(pod, "app", whole(2))
				n.runsOn(again, "4-5")
				r.quiet()
				scope := n.runtime.Cgroup(old)
				if err := n.tree.Remove(scope); err != nil {
					t.Fatal(err)
				}
				n.isPartition(again, cgroup.RootPartition)
				if leaked := n.tree.Leaked(); !leaked.IsEmpty() || n.tree.Crashed() {
					t.Errorf("leaked: %s, crashed: %t", leaked, n.tree.Crashed())
				}
				n.check()
			})
		}
	}
}

// TestPartitionsWithoutOthers: when nothing but partitions is online the kernel makes their
// CPUs everybody's, and says nothing; once others are back the owner has its own for itself.
func TestPartitionsWithoutOthers(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, kernel[0], kernel[1], testnode.RuntimeConfig{})
			n.yaml = isolating(n.yaml)
			r := n.start()
			id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(4))
			shared := n.container(n.pod("s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
			n.isPartition(id, cgroup.RootPartition)
			n.runsOn(shared, "2-3")
			r.quiet()
			n.online(cpuset.Range(4, 7))
			r.view("the owner gives one up", func(v *telemetry.View) bool { return v.Problems[string(pools.CodeShort)] == 1 })
			n.runsOn(shared, "7")
			r.quiet()
			n.online(without())
			exclusive := func() {
				t.Helper()
				n.runsOn(shared, "2-3")
				n.eventually("a partition that is one", func() bool {
					st := n.state(id)
					return st.Partition.Valid() && st.Effective.Equal(cpuset.Range(4, 7)) && !n.root().Overlaps(st.Effective)
				})
				r.quiet()
				n.check()
			}
			exclusive()
			r.stop()
			n.online(cpuset.Range(4, 7))
			n.online(without())
			if st := n.state(id); !st.Partition.Valid() || !n.root().Overlaps(st.Effective) {
				t.Fatalf("it is %+v, the root has %s", st, n.root())
			}
			r = n.start()
			exclusive()
			if leaked := n.tree.Leaked(); !leaked.IsEmpty() || n.tree.Crashed() {
				t.Errorf("leaked: %s, crashed: %t", leaked, n.tree.Crashed())
			}
		})
	}
}

// TestPartitionContest: who ends a partition whenever it is one is left alone with it,
// and the state says so. The container stays on its CPUs.
func TestPartitionContest(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.yaml = isolating(n.yaml)
	r := n.start()
	id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.isPartition(id, cgroup.RootPartition)
	r.quiet()
	on, ended := n.state(id).CPUs, 0
	r.view("contested", func(v *telemetry.View) bool {
		contested := v.Problems[string(retry.CodeContested)] == 1
		if !contested && n.state(id).Partition.Valid() {
			ended++
			if err := n.tree.Write(n.runtime.Cgroup(id)+"/cpuset.cpus.partition", "member"); err != nil {
				t.Fatal(err)
			}
		}
		return contested
	})
	if ended < retry.MaxRepairs || ended > 3*retry.MaxRepairs { // not each is seen
		t.Errorf("ended %d times before it is left alone; want about %d", ended, retry.MaxRepairs)
	}
	if got := n.state(id); !got.Effective.Equal(on) || got.Partition.Valid() {
		t.Errorf("while it is left alone it is on %s, %s; want %s, member", got.Effective, got.Partition, on)
	}
}

// TestLeakedCPUs: CPUs that the kernel has lost are told of and given to nobody.
func TestLeakedCPUs(t *testing.T) {
	n := newPartitionNode(t, 6, 12, testnode.RuntimeConfig{})
	n.yaml = isolating(n.yaml)
	r := n.start()
	pod := n.pod("a", "default", "guaranteed", 2, nil)
	id := n.container(pod, "app", whole(2))
	n.isPartition(id, cgroup.RootPartition)
	r.quiet()
	lost := n.state(id).CPUs
	r.stop()
	// Nobody repairs it before its cgroup is gone.
	stranger := string(cgroup.Path(n.runtime.Cgroup(id)).Parent().Join("stranger"))
	n.tree.MkdirAll(stranger)
	if err := n.tree.Write(stranger+"/cpuset.cpus", "0-7"); err != nil {
		t.Fatal(err)
	}
	if err := n.runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if leaked := n.tree.Leaked(); !leaked.Equal(lost) {
		t.Fatalf("leaked: %s, want %s", leaked, lost)
	}
	r = n.start()
	r.view("CPUs held for lost", func(v *telemetry.View) bool { return v.Leaked.Equal(lost) && v.Problems["LeakedCPUs"] == 1 })
	other := n.container(n.pod("b", "default", "guaranteed", 2, nil), "app", whole(2))
	n.isPartition(other, cgroup.RootPartition)
	if cpus := n.state(other).CPUs; cpus.Overlaps(lost) {
		t.Errorf("a container was given CPUs %s, of which %s are lost", cpus, lost)
	}
	third := n.container(n.pod("c", "default", "guaranteed", 1, nil), "app", whole(1))
	n.runsOn(third, "2-3") // there are no others
}

// TestNoPartitions: where the kernel has none, containers are kept apart by cpusets.
func TestNoPartitions(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		yaml         string
		problems     int
	}{
		"asked for, old kernel": {6, 8, isolating(poolsYAML), 1},
		"auto, kernel before":   {6, 12, isolatingBy(poolsYAML, "auto"), 0},
		"switched off":          {7, 0, isolatingBy(poolsYAML, "cpuset"), 0},
		"default":               {7, 0, poolsYAML, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := newPartitionNode(t, c.major, c.minor, testnode.RuntimeConfig{})
			n.yaml = c.yaml
			r := n.start()
			id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
			r.view("cpuset", func(v *telemetry.View) bool {
				return modes(v)["a"] == "cpuset" && v.Problems["NoPartitions"] == c.problems
			})
			r.quiet()
			n.check()
			if st := n.state(id); !st.Partition.Is(cgroup.MemberPartition) || len(n.lists()) > 0 {
				t.Errorf("it is a partition: %+v", st)
			}
		})
	}
}

// TestPartitionsSwitchedOff: a configuration without gives all of them back.
func TestPartitionsSwitchedOff(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.yaml = isolating(n.yaml)
	r := n.start()
	id := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.isPartition(id, cgroup.RootPartition)
	n.yaml = poolsYAML
	r.loop.reload()
	n.eventually("no partitions", func() bool { return len(n.lists()) == 0 && n.root().Equal(cpuset.Range(0, 7)) })
	r.quiet()
	n.check()
}
