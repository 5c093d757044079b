package cgroup_test

import (
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// carved is a node whose shared containers are all where they should be, on CPUs
// 0-15, with a record of it at the runtime and at systemd.
func carved(t *testing.T, shared int) *world {
	t.Helper()
	w := newWorld(cgroup.DriverSystemd, 16)
	for i := range shared {
		target := cgroup.Target{
			Path:      cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%02d.slice/cri-containerd-%02d.scope", i, i)),
			Container: fmt.Sprint(i), CPUs: w.options.Possible,
		}
		w.start(target.Path, false)
		w.targets = append(w.targets, target)
	}
	writes, _ := w.diff()
	for _, x := range writes {
		w.mustApply(t, x)
	}
	return w
}

// carry applies the writes of Diff, checks each prefix if that does not take too long,
// and returns the writes.
func (w *world) carry(t *testing.T) []cgroup.Write {
	t.Helper()
	writes, deferred := w.diff()
	g := w.guard()
	for i, x := range writes {
		w.mustApply(t, x)
		if len(w.targets) < 50 || i%50 == 0 || i == len(writes)-1 {
			g.check(t, x.String())
		}
	}
	if len(deferred) > 0 {
		t.Errorf("deferred = %v; want none", deferred)
	}
	if again, _ := w.diff(); len(again) > 0 {
		t.Errorf("writes of a second Diff = %d; want 0: %v", len(again), again[0])
	}
	return writes
}

// share gives the shared containers other CPUs.
func (w *world) share(cpus cpuset.Set) {
	for i := range w.targets {
		if !w.targets[i].Exclusive {
			w.targets[i].CPUs = cpus
		}
	}
}

// own adds the exclusive container with CPUs 14-15.
func (w *world) own() *cgroup.Target {
	w.targets = append(w.targets, cgroup.Target{
		Path: "kubepods.slice/kubepods-podx.slice/cri-containerd-x.scope", Container: "x", CPUs: cpuset.Of(14, 15), Exclusive: true, Unlimited: true,
	})
	return &w.targets[len(w.targets)-1]
}

// indices returns where in a list the writes to the exclusive container and to
// others are.
func indices(writes []cgroup.Write, is func(cgroup.Write) bool) (own, others []int) {
	for i, x := range writes {
		switch {
		case !is(x):
		case x.Container == "x" || x.Path.Base() == "cri-containerd-x.scope":
			own = append(own, i)
		default:
			others = append(others, i)
		}
	}
	return own, others
}

func isRaw(x cgroup.Write) bool    { return x.Property == cgroup.FileCPUs }
func isRecord(x cgroup.Write) bool { return x.Property == cgroup.CRICPUs }

// TestSharedMakeWay checks a shared container that becomes exclusive. It gets its CPUs
// when no record of another cgroup can bring that cgroup back there. The others get the
// CPUs back when it is gone.
func TestSharedMakeWay(t *testing.T) {
	for _, shared := range []int{10, 100} {
		t.Run(fmt.Sprint(shared), func(t *testing.T) { makeWay(t, shared) })
	}
}

func makeWay(t *testing.T, shared int) {
	w := carved(t, shared)
	x := w.own()
	w.start(x.Path, false)
	w.set(x.Path, cpuset.Range(0, 7))
	w.recorded[x.Path] = cpuset.Range(0, 7)
	w.share(cpuset.Range(0, 13))
	writes := w.carry(t)
	ownRaw, otherRaw := indices(writes, isRaw)
	ownRecord, otherRecord := indices(writes, isRecord)
	if len(otherRaw) != shared || len(otherRecord) != shared || len(ownRaw) != 1 || len(ownRecord) != 1 {
		t.Fatalf("raw writes and records: %d and %d of others, %d and %d of the exclusive one; want one each of all",
			len(otherRaw), len(otherRecord), len(ownRaw), len(ownRecord))
	}
	if otherRaw[shared-1] > otherRecord[0] || otherRecord[shared-1] > ownRaw[0] || ownRaw[0] > ownRecord[0] {
		t.Errorf("order: others written until %d, recorded from %d to %d; exclusive written at %d, recorded at %d",
			otherRaw[shared-1], otherRecord[0], otherRecord[shared-1], ownRaw[0], ownRecord[0])
	}
	if want := 2*shared + 3; len(writes) != want { // and the quota
		t.Errorf("%d writes; want %d", len(writes), want)
	}

	w.targets = w.targets[:shared]
	w.must(w.tree.Remove(string("kubepods.slice/kubepods-podx.slice/cri-containerd-x.scope")))
	w.share(w.options.Possible)
	if writes := w.carry(t); len(writes) != 2*shared {
		t.Errorf("%d writes to give the CPUs back; want %d", len(writes), 2*shared)
	}
}

// TestSharedMakeWayForNew checks that a new container, which would start anywhere, is
// recorded at once, and that running containers are narrowed at once.
func TestSharedMakeWayForNew(t *testing.T) {
	const shared = 12
	for _, started := range []bool{false, true} {
		w := carved(t, shared)
		x := w.own()
		if w.absent[x.Path] = !started; started {
			w.start(x.Path, false)
		}
		w.share(cpuset.Range(0, 13))
		writes := w.carry(t)
		own, others := indices(writes, func(x cgroup.Write) bool { return isRaw(x) || isRecord(x) })
		if len(others) != 2*shared || own[0] > 2*shared {
			t.Errorf("started %t: writes of others = %d, own at %v; want %d, and own no later", started, len(others), own, 2*shared)
		}
	}
}

// TestSharedStaleUnit checks the case that systemd alone has the old CPUs of one shared
// container, and refuses updates: the exclusive container waits for that unit only.
func TestSharedStaleUnit(t *testing.T) {
	w := carved(t, 20)
	x := w.own()
	w.start(x.Path, false)
	w.set(x.Path, cpuset.Of(13))
	w.recorded[x.Path] = cpuset.Of(13)
	w.share(cpuset.Range(0, 12))
	stale := w.targets[17]
	w.set(stale.Path, stale.CPUs)
	w.recorded[stale.Path] = stale.CPUs
	w.noRecord[stale.Path] = true
	writes, deferred := w.diff()
	g := w.guard()
	for _, x := range writes {
		w.mustApply(t, x)
		g.check(t, x.String())
	}
	waits := 0
	for _, d := range deferred {
		if d.Path == x.Path && len(d.WaitsFor) == 1 && d.WaitsFor[0] == stale.Path {
			waits++
		}
	}
	if waits != 1 {
		t.Errorf("deferred %v; want the exclusive container to wait for %s alone", deferred, stale.Path)
	}
	clear(w.noRecord)
	w.carry(t)
}

// BenchmarkDiffCarve plans the writes of 100 shared containers that release CPUs.
func BenchmarkDiffCarve(b *testing.B) {
	const containers = 100
	w := newWorld(cgroup.DriverSystemd, 16)
	all := w.options.Possible
	current := map[cgroup.Path]cgroup.Current{}
	for i := range containers {
		p := cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%02d.slice/cri-containerd-%02d.scope", i, i))
		w.targets = append(w.targets, cgroup.Target{Path: p, Container: fmt.Sprint(i), CPUs: cpuset.Range(0, 13)})
		current[p] = cgroup.Current{
			State:  cgroup.State{Path: p, HasCPUSet: true, CPUs: all, Effective: all, ParentEffective: all, Quota: -1, Populated: true},
			Exists: true, Recorded: all, RecordedKnown: true, Unit: cgroup.UnitState{Known: true, CPUs: all, Quota: -1},
		}
	}
	x := w.own()
	shared := cpuset.Range(0, 7)
	current[x.Path] = cgroup.Current{
		State:  cgroup.State{Path: x.Path, HasCPUSet: true, CPUs: shared, Effective: shared, ParentEffective: all, Quota: -1, Populated: true},
		Exists: true, Recorded: shared, RecordedKnown: true, Unit: cgroup.UnitState{Known: true, CPUs: shared, Quota: -1},
	}
	b.ReportAllocs()
	for b.Loop() {
		if writes, _ := cgroup.Diff(w.targets, current, w.options); len(writes) < 2*containers {
			b.Fatalf("writes = %d; want at least two for each container", len(writes))
		}
	}
}
