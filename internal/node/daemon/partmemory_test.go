package daemon

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// countReads returns the number of reads by file, and of directories under "", until the daemon
// has nothing left to do.
func (r *running) countReads(do func()) map[string]int {
	r.T.Helper()
	r.awaitIdle()
	all := make(map[string]int)
	r.Tree.OnRead(func(name string) {
		if strings.HasSuffix(name, "/") {
			all[""]++
		} else {
			all[path.Base(name)]++
		}
	})
	do()
	r.awaitIdle()
	r.Tree.OnRead(nil)
	return all
}

// least keeps the minimum of two counts.
func least(of map[string]int, name string, n int) {
	if before, counted := of[name]; !counted || n < before {
		of[name] = n
	}
}

// TestReadsOfPartitions checks that the reads for a new or ended partition do not grow with the
// number of pods or owners, and that exclusive lists are read for partitions alone.
func TestReadsOfPartitions(t *testing.T) {
	begins, ends := make(map[string]int), make(map[string]int)
	for _, beside := range []struct{ pods, owners int }{{16, 1}, {16, 16}, {125, 1}, {125, 64}, {manyPods, 1}} {
		name := fmt.Sprintf("%d pods, %d owners", beside.pods, beside.owners)
		n := newNodeOf(t, nodefixture.Spec{CPUs: 128, Kernel: nodefixture.KernelLike(7, 0), Runtime: testnode.RuntimeConfig{NRI: true}})
		n.YAML = nodefixture.WithIsolation(strings.Replace(n.YAML, "  cpus: 4-7\n", "  cpus: 4-127\n", 1), "auto")
		for i := range beside.pods {
			cpus, has := 0, cri.Resources{Shares: 512}
			if i < beside.owners {
				cpus, has = 1, nodefixture.WholeCPUs(1)
			}
			n.RunContainer(n.RunPod(fmt.Sprintf("p%d", i), "default", "guaranteed", cpus, nil), "a", has)
		}
		r := n.start()
		r.connected()
		parted := func(want int) {
			t.Helper()
			r.view("partitions", func(v *telemetry.View) bool { return v.Partitions["root"] == want })
		}
		parted(beside.owners)
		r.settled()
		for _, uid := range []string{"first", "new"} { // before the first one the daemon has not read everything
			pod := n.RunPod(uid, "default", "guaranteed", 1, nil)
			began := r.countReads(func() {
				n.RunContainer(pod, "a", nodefixture.WholeCPUs(1))
				parted(beside.owners + 1)
			})
			ended := r.countReads(func() {
				if err := n.Runtime.StopPod(pod); err != nil {
					t.Fatal(err)
				}
				parted(beside.owners)
			})
			t.Log(name, uid, "begins", began, "ends", ended)
			least(begins, name, began[cgroup.FileExclusive])
			least(ends, name, ended[cgroup.FileExclusive])
		}
		r.stop()
	}
	const most = 100 // with 500 other pods 6,072 and 2,520 reads when all lists were read each time
	for name := range begins {
		if begins[name] > most || ends[name] > most {
			t.Errorf("%s: a partition that begins has %d cgroups read, one that ends %d", name, begins[name], ends[name])
		}
	}
}

// TestForeignLists checks that external writes to the exclusive lists of pods and their parents
// are noticed without a resync. A partition gets its CPUs back, and a list that prevents a
// partition is found.
func TestForeignLists(t *testing.T) {
	n := newPartitionNode(t, 7, 0, testnode.RuntimeConfig{})
	n.YAML = nodefixture.WithPartitions(strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 1h", 1))
	r := n.start()
	owner := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	other := n.RunPod("s", "default", "guaranteed", 0, nil)
	n.AwaitCPUs(n.RunContainer(other, "a", cri.Resources{Shares: 512}), "2-3")
	n.AwaitPartition(owner, cgroup.RootPartition)
	r.settled()
	r.awaitIdle()
	slice := cgroup.Path(n.Runtime.Cgroup(owner)).Parent()
	for _, p := range []cgroup.Path{slice, slice.Parent()} {
		if err := n.Tree.Write(path.Join(string(p), cgroup.FileExclusive), "\n"); err != nil {
			t.Fatal(err)
		}
		n.Eventually("a partition again", func() bool {
			return n.ExclusiveLists()[p] == n.State(owner).CPUs.String() && n.State(owner).Partition.Is(cgroup.RootPartition)
		})
		r.awaitIdle()
	}
	// A shorter list leaves a partition of fewer CPUs. No other file shows that.
	scope := cgroup.Path(n.Runtime.Cgroup(owner))
	own := n.State(owner).CPUs
	for _, p := range []cgroup.Path{slice, scope} {
		for _, stale := range []bool{false, true} {
			if stale {
				r.betweenFullPasses(func(l *Loop) { l.cache.Invalidate(p) })
			}
			if err := n.Tree.Write(path.Join(string(p), cgroup.FileExclusive), fmt.Sprint(own.Last())); err != nil {
				t.Fatal(err)
			}
			n.Eventually("all its CPUs again", func() bool {
				is := n.State(owner)
				return n.ExclusiveLists()[p] == own.String() && is.Partition.Is(cgroup.RootPartition) && is.Effective.Equal(own)
			})
			r.awaitIdle()
		}
	}
	taken := slice.Parent().Join(path.Base(path.Dir(n.Runtime.Cgroup(other))))
	free := n.RootCPUs().Difference(n.State(owner).CPUs).Last()
	if err := n.Tree.Write(path.Join(string(taken), cgroup.FileExclusive), fmt.Sprint(free)); err != nil {
		t.Fatal(err)
	}
	n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	r.view("the reason", func(v *telemetry.View) bool { return v.Problems["NoPartition"] == 1 })
	if err := n.Tree.Write(path.Join(string(taken), cgroup.FileExclusive), "\n"); err != nil {
		t.Fatal(err)
	}
	r.view("two partitions", func(v *telemetry.View) bool { return v.Partitions["root"] == 2 })
	n.CheckOccupants()
}

// errDue reports that a pass is due first.
var errDue = errors.New("a pass is due")

// checkMemory checks the remembered state of partitions against the kernel when no notice and
// no scan is open.
func checkMemory(l *Loop) error {
	l.takeNotices()
	if !l.publisher.IsReady() || l.notices.Tree.Watcher() == nil {
		return nil // the daemon will read everything again
	}
	if l.schedule.isDue() || l.cache.HasStale() {
		l.schedule.add(scopeAll)
		if len(l.last.Deferred) > 0 { // each event makes a pass due while a write waits
			return fmt.Errorf("%w, because writes wait: %v", errDue, l.last.Deferred)
		}
		return errDue
	}
	var leaves []cgroup.Path
	for _, t := range l.last.Targets {
		if t.Exclusive {
			leaves = append(leaves, t.Path)
		}
	}
	if !l.partitions.Parked().IsEmpty() {
		leaves = append(leaves, cgroup.Parking)
	}
	memory := l.partitions.Memory
	memory.Keep(func(p cgroup.Path) bool { // a pass reads cgroups without a watch, and those that differ in the cache
		files, _ := l.notices.Tree.Watcher().Reports(p)
		return files
	}, func(p cgroup.Path) bool {
		_, children := l.notices.Tree.Watcher().Reports(p)
		return children
	})
	for p, n := range maps.Collect(memory.Nodes()) {
		if c := l.cache.Current(p); c.Exists && (!c.CPUs.Equal(n.CPUs) || c.Partition.String() != n.State.String()) {
			memory.Forget(p)
			memory.ForgetIn(p)
			if _, _, inPod := cgroup.PodOf(p.Parent()); inPod {
				memory.ForgetIn(p.Parent())
			}
		}
	}
	got, err := memory.Read(leaves)
	want, wantErr := l.Cgroups.ReadPartitions(leaves)
	if err = errors.Join(err, wantErr); err != nil {
		return err
	}
	for p, w := range want.Nodes {
		n, known := got.Nodes[p]
		if !known || n.State.String() != w.State.String() || !n.CPUs.Equal(w.CPUs) || !n.Exclusive.Equal(w.Exclusive) || w.State.Valid() && !n.Effective.Equal(w.Effective) {
			err = errors.Join(err, fmt.Errorf("%s is %+v, and taken for %+v (%t)", p, w, n, known))
		}
	}
	for p := range got.Nodes {
		if _, there := want.Nodes[p]; !there {
			err = errors.Join(err, fmt.Errorf("%s is gone, and not taken for that", p))
		}
	}
	return err
}
