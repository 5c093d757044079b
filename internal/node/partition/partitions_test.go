package partition_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/quiet"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// node is a node with the partitions of a daemon.
type node struct {
	*nodefixture.Node
	*partition.Partitions
	now       time.Time
	plan      pools.Plan
	targets   []cgroup.Target
	settings  desired.Settings
	inventory *inventory.Inventory
	diskFull  bool // the journal cannot be saved
	watcher   *cgroup.Watcher
	writes    int
}

// newNode returns a node with a kernel of a version, and a daemon that has just started.
func newNode(t *testing.T, major, minor int, yaml string) *node {
	t.Helper()
	n := &node{Node: nodefixture.New(t, nodefixture.Spec{Kernel: nodefixture.KernelLike(major, minor)}), now: time.Unix(1000, 0)}
	n.YAML = yaml
	n.restart(undo.Document{})
	return n
}

// restart starts a daemon with a journal.
func (n *node) restart(journal undo.Document) {
	n.T.Helper()
	c, err := n.Config()
	if err != nil {
		n.T.Fatal(err)
	}
	h := n.Host()
	if journal.BootID, err = kernelfs.BootID(); err != nil {
		n.T.Fatal(err)
	}
	n.settings = desired.Settings{}
	if _, err := n.settings.Begin(c, n.Topology, nil); err != nil {
		n.T.Fatal(err)
	}
	log, j := n.Logger(), journal.Journal()
	n.inventory = inventory.New(h.Driver)
	n.Partitions = partition.New(partition.Sources{
		Host: &h, Log: log, Settings: &n.settings, Objects: n.inventory.Objects(), Others: new(desired.OtherManagers), Cache: kernelstate.New(h.Cgroups.Reader(), log),
		Memory: h.Cgroups.PartitionMemory(), Backoffs: retry.New(), Journal: j, Quiet: quiet.New(cpuset.Set{}),
		Save: func(now time.Time) {
			if n.diskFull {
				return
			}
			if d, upTo, due := j.BeginSave(now); due {
				err := undo.File{Name: h.JournalFile, RunDir: h.RunDir}.Save(d)
				if err != nil {
					n.T.Error(err)
				}
				j.EndSave(upTo, err, now)
			}
		},
		Count: func(cgroup.Write, error) { n.writes++ },
	})
	n.list()
}

// list reads pods and containers from the runtime.
func (n *node) list() {
	h := n.Host()
	n.inventory.Merge(n.inventory.Query(nil, false).List(context.Background(), &h))
}

// own runs a container on exclusive CPUs.
func (n *node) own(pod, cpus string) (id string) {
	n.T.Helper()
	set, err := cpuset.Parse(cpus)
	if err != nil {
		n.T.Fatal(err)
	}
	id = n.RunContainer(n.RunPod(pod, "default", "guaranteed", set.Len(), nil), "app", nodefixture.WholeCPUs(set.Len()))
	n.WriteFile(id, cgroup.FileCPUs, cpus)
	n.list()
	n.targets = append(n.targets, cgroup.Target{Path: cgroup.Path(n.Runtime.Cgroup(id)), Container: id, CPUs: set, Exclusive: true})
	n.plan.Free = n.plan.Free.Difference(set)
	return id
}

// drop ends an owner. Its CPUs are free.
func (n *node) drop(id string) {
	n.targets = slices.DeleteFunc(n.targets, func(t cgroup.Target) bool {
		if t.Container == id {
			n.plan.Free = n.plan.Free.Union(t.CPUs)
		}
		return t.Container == id
	})
}

// pass makes a pass without other writes. It returns the number of writes of partitions.
func (n *node) pass() int {
	before := n.writes
	for _, do := range []func(partition.Situation) bool{n.Dissolve, n.Make} {
		n.Cache.InvalidateAll()
		n.Cache.Refresh(n.targets, n.Objects)
		do(partition.Situation{Targets: n.targets, Plan: &n.plan, Watcher: n.watcher, Now: n.now})
	}
	n.Cache.InvalidateAll()
	n.Cache.Refresh(n.targets, n.Objects)
	return n.writes - before
}

// wait sets the clock to the next time at which partitions need a pass, and makes it.
func (n *node) wait() {
	n.T.Helper()
	var due time.Time
	n.Next(func(at time.Time) {
		if at.After(n.now) && (due.IsZero() || at.Before(due)) {
			due = at
		}
	})
	if due.IsZero() {
		n.T.Fatal("no pass is due")
	}
	n.now = due
	n.pass()
}

// codes returns the codes of the problems, separated by spaces.
func (n *node) codes() string {
	var all []string
	for _, p := range n.Problems(n.targets) {
		all = append(all, string(p.Code))
	}
	return strings.Join(all, " ")
}

// TestOwner follows an owner from start to end, with a restart of the daemon.
func TestOwner(t *testing.T) {
	for name, kernel := range map[string][2]int{"6.12": {6, 12}, "7.0": {7, 0}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, kernel[0], kernel[1], nodefixture.WithPartitions(nodefixture.PoolsYAML))
			id := n.own("a", "4-5")
			if !n.Pending(n.targets[0]) || n.Has(id) {
				t.Error("not pending before the first pass")
			}
			n.pass()
			if st := n.State(id); !st.Partition.Is(cgroup.RootPartition) || n.RootCPUs().Overlaps(st.CPUs) {
				t.Fatalf("%+v; root: %s", st, n.RootCPUs())
			}
			if n.Pending(n.targets[0]) || !n.Has(id) || !n.IsSettled() || n.Mode(n.targets[0].Path) != "partition-root" || n.Counts()["root"] != 1 || n.codes() != "" {
				t.Errorf("pending: %t, settled: %t, mode: %s, counts: %v, problems: %s", n.Pending(n.targets[0]), n.IsSettled(), n.Mode(n.targets[0].Path), n.Counts(), n.codes())
			}
			n.restart(n.Journal())
			if writes := n.pass(); writes > 0 {
				t.Errorf("a new daemon makes %d writes", writes)
			}
			n.drop(id)
			n.pass()
			if lists := n.ExclusiveLists(); len(lists) > 0 || !n.State(id).Partition.Is(cgroup.MemberPartition) || !n.RootCPUs().Equal(cpuset.Range(0, 7)) {
				t.Errorf("after the end: %s, lists %v, root %s", n.State(id).Partition, lists, n.RootCPUs())
			}
			n.CheckKernel()
		})
	}
}

// TestFirstWritesWaitForJournal checks that the daemon makes no partition before the originals are
// on disk.
func TestFirstWritesWaitForJournal(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	id := n.own("a", "4-5")
	n.diskFull = true
	if writes := n.pass(); writes > 0 {
		t.Fatalf("%d writes without a journal", writes)
	}
	n.diskFull = false
	if writes := n.pass(); writes == 0 || !n.Has(id) || len(n.Journal().Originals) != 4 {
		t.Errorf("%d writes, journal: %v", writes, n.Journal().Originals)
	}
}

// TestRefused checks that a refused partition is reported, and tried again after pauses that grow.
func TestRefused(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	id := n.own("a", "4-5")
	end := n.RefuseWrites(n.targets[0].Path, cgroup.FilePartition)
	began := n.now
	n.pass()
	for _, pause := range []time.Duration{100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond} {
		if n.Counts()["refused"] != 1 || n.codes() != "NoPartition" || n.Pending(n.targets[0]) || !n.IsSettled() || n.Mode(n.targets[0].Path) != "cpuset" {
			t.Fatalf("counts: %v, problems: %s", n.Counts(), n.codes())
		}
		if n.wait(); n.now.Sub(began) != pause {
			t.Errorf("tried again after %s, want %s", n.now.Sub(began), pause)
		}
	}
	end()
	n.wait()
	if !n.Has(id) || n.codes() != "" {
		t.Errorf("counts: %v, problems: %s", n.Counts(), n.codes())
	}
}

// TestLost checks that CPUs which stay in no cgroup count as lost, until they are back.
func TestLost(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	n.own("a", "4-5")
	n.pass()
	n.Tree.SetLimit(cpuset.Range(0, 6))
	n.RecheckAll()
	n.pass()
	if !n.Lost().IsEmpty() || n.IsSettled() {
		t.Fatalf("lost at once: %s", n.Lost())
	}
	for found := n.now; n.Lost().IsEmpty(); {
		if n.wait(); n.now.Sub(found) > partition.LeakTime {
			t.Fatalf("not lost after %s", n.now.Sub(found))
		}
	}
	if !n.Lost().Equal(cpuset.Of(7)) || n.codes() != "LeakedCPUs" {
		t.Errorf("lost: %s, problems: %s", n.Lost(), n.codes())
	}
	n.Tree.SetLimit(cpuset.Set{})
	n.RecheckAll()
	if n.pass(); !n.Lost().IsEmpty() || n.codes() != "" || !n.IsSettled() {
		t.Errorf("still lost: %s, problems: %s", n.Lost(), n.codes())
	}
}

// TestParking checks that free CPUs are parked, that an owner gets its CPUs from the parking, and
// that the cgroup of an ended parking is removed.
func TestParking(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithParking(nodefixture.PoolsYAML, "partition"))
	n.plan.Free = cpuset.Range(4, 7)
	parked := func(what, cpus string) {
		t.Helper()
		if st, _ := n.Node.Parked(); n.Partitions.Parked().String() != cpus || st.Partition.Valid() != (cpus != "") || cpus != "" && st.Effective.String() != cpus {
			t.Errorf("%s: parked %s, kernel %s %s; want %s", what, n.Partitions.Parked(), st.Effective, st.Partition, cpus)
		}
	}
	n.pass()
	parked("start", "4-7")
	id := n.own("a", "4-5")
	n.pass()
	parked("owner", "6-7")
	if !n.Has(id) {
		t.Errorf("owner: %+v, problems: %s", n.State(id), n.codes())
	}
	if err := n.Tree.Write(string(cgroup.Parking.Join(cgroup.FilePartition)), "member"); err != nil {
		t.Fatal(err)
	}
	if !n.NoteWrite(cgroup.Parking, cgroup.FilePartition) {
		t.Error("the end of the parking is not noted")
	}
	n.pass()
	parked("repaired", "6-7")
	n.YAML = nodefixture.WithPartitions(nodefixture.PoolsYAML)
	n.restart(n.Journal())
	n.pass()
	parked("switched off", "")
	if _, there := n.Node.Parked(); there {
		t.Error("the cgroup of the parking is left")
	}
	n.CheckKernel()
}

// TestSiblingIsHeard checks that a write to a cgroup leads to a scan if its cpuset can break a
// partition next to it.
func TestSiblingIsHeard(t *testing.T) {
	for name, c := range map[string]struct {
		major, minor int
		scan         bool
	}{"6.12": {6, 12, true}, "6.18": {6, 18, true}, "7.0": {7, 0, false}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.major, c.minor, nodefixture.WithPartitions(nodefixture.PoolsYAML))
			id := n.own("a", "4-5")
			n.pass()
			n.RecheckNear(cgroup.Path(n.Runtime.Cgroup(n.RunContainer(n.RunPod("s", "default", "burstable", 0, nil), "a", cri.Resources{Shares: 512}))))
			if !n.IsSettled() {
				t.Error("a write in another pod leads to a scan")
			}
			n.RecheckNear(cgroup.Path(n.Runtime.Cgroup(n.RunContainer(n.PodOf(id), "sidecar", cri.Resources{Shares: 512}))))
			if n.IsSettled() == c.scan {
				t.Errorf("a write in the pod leads to a scan: %t", !n.IsSettled())
			}
		})
	}
}

// TestExternalWrites checks that notices of own writes lead to no scan, and notices of external
// writes to exclusive lists do.
func TestExternalWrites(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	id := n.own("a", "4-5")
	leaf := n.targets[0].Path
	n.pass()
	// The node has no watcher, so the daemon remembers no list. Each notice of a list counts.
	if n.NoteWrite(leaf, cgroup.FileCPUs) || n.NoteWrite(leaf, "") || n.NoteState(leaf, n.State(id).Partition) || !n.IsSettled() {
		t.Error("a notice without an external write leads to a scan")
	}
	n.WriteFile(id, cgroup.FilePartition, "member")
	if !n.NoteState(leaf, n.State(id).Partition) || n.IsSettled() {
		t.Error("the end of a partition leads to no scan")
	}
	if n.pass(); !n.Has(id) || !n.State(id).Partition.Valid() {
		t.Errorf("not repaired: %s", n.State(id).Partition)
	}
	if err := n.Tree.Write(string(leaf.Parent().Join(cgroup.FileExclusive)), "\n"); err != nil {
		t.Fatal(err)
	}
	if !n.NoteWrite(leaf.Parent(), cgroup.FileExclusive) || n.IsSettled() {
		t.Error("a list that was cleared leads to no scan")
	}
	if n.pass(); n.ExclusiveLists()[leaf.Parent()] != "4-5" {
		t.Errorf("lists: %v", n.ExclusiveLists())
	}
}

// TestOwnWrites checks that the daemon remembers watched cgroups: notices of own writes lead to no
// scan.
func TestOwnWrites(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	n.own("a", "4-5")
	var all []cgroup.Path
	for p := n.targets[0].Path; p != ""; p = p.Parent() {
		all = append(all, p)
	}
	h := n.Host()
	w, err := h.Cgroups.Watch(func() {}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	if err := w.Set(all, append(all[1:], "")); err != nil {
		t.Fatal(err)
	}
	n.watcher = w
	n.pass()
	n.pass() // reads the lists above the new partition
	for _, p := range all {
		if n.NoteWrite(p, cgroup.FileExclusive) || !n.IsSettled() {
			t.Errorf("an own write to a list of %s leads to a scan", p)
		}
	}
	n.Tree.OnRead(func(name string) {
		if at, isList := strings.CutSuffix(name, "/"+cgroup.FileExclusive); isList && slices.Contains(all, cgroup.Path(at)) {
			t.Errorf("%s is read again without a notice", name)
		}
	})
	n.Recheck("system.slice/other")
	n.pass()
}

// TestUnblocks checks that the end of a cgroup makes the daemon try a refused partition again.
func TestUnblocks(t *testing.T) {
	n := newNode(t, 7, 0, nodefixture.WithPartitions(nodefixture.PoolsYAML))
	n.own("a", "4-5")
	end := n.RefuseWrites(n.targets[0].Path, cgroup.FilePartition)
	n.pass()
	beside := n.targets[0].Path.Parent().Join("other")
	if n.Unblocks("system.slice/other") || !n.Unblocks(beside) || n.IsSettled() {
		t.Error("only a cgroup next to the refused partition can have been in its way")
	}
	end()
	n.wait()
	if n.Unblocks(beside) {
		t.Error("a partition in force was in no way")
	}
}
