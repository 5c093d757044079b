package cgroup_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// randomWorld makes a node whose containers are anywhere, and a plan for it in
// which exclusive sets are disjoint from all others.
func randomWorld(r *rand.Rand) *world {
	cpus := 2 + r.IntN(9)
	driver := []cgroup.Driver{cgroup.DriverSystemd, cgroup.DriverCgroupfs}[r.IntN(2)]
	w := newWorld(driver, cpus)
	containers := 1 + r.IntN(7)
	plan := randomPlan(r, containers, cpus)
	groups := groupPods(plan, r)
	before := randomPlan(r, containers, cpus)
	chaos := r.IntN(3) == 0 // before there was no plan
	w.options.Spare = w.options.Possible
	for i := range containers {
		t := cgroup.Target{
			Path: containerPath(driver, i), Container: fmt.Sprint("c", i), CPUs: plan[i].runs(), Exclusive: plan[i].exclusive, Mixed: plan[i].mixed,
			Group: groups[i], Unlimited: plan[i].exclusive, Reason: fmt.Sprint("reason ", i),
		}
		switch kind := r.IntN(6); {
		case kind == 0:
			t.Container = "" // a pause container
		case kind == 1 && t.Group == "":
			t.Container, t.Unit = "", fmt.Sprintf("u%d.service", i)
			t.Path = cgroup.Path("system.slice/" + t.Unit)
		}
		if r.IntN(3) == 0 {
			t.Weight = uint64(1 + r.IntN(10000))
		}
		if r.IntN(3) == 0 {
			t.Mems = randomSet(r, w.options.Nodes.Len())
		}
		if r.IntN(3) == 0 {
			t.Quota, t.Period = int64(1000+r.IntN(200_000)), []int64{0, 10_000, 100_000, 250_000}[r.IntN(4)]
		}
		w.targets = append(w.targets, t)
		w.options.Spare = w.options.Spare.Difference(t.CPUs)
		if t.Exclusive {
			w.options.Owned = w.options.Owned.Union(t.CPUs.Difference(t.Mixed))
		}
		place := before[i].runs()
		if chaos {
			place = randomSet(r, cpus)
		}
		w.begin(r, t, place)
	}
	if r.IntN(2) == 0 {
		w.addHostSlice(r, driver)
	}
	if r.IntN(3) == 0 {
		w.addPodSlices(r, driver)
	}
	if r.IntN(4) == 0 {
		w.options.Spare = cpuset.Set{}
	}
	if r.IntN(4) == 0 {
		w.options.Leaving = map[cgroup.Path]cpuset.Set{"system.slice/leaving.service": randomSet(r, cpus)}
	}
	return w
}

// addHostSlice confines system.slice to a CPU without an exclusive owner, plus the CPUs
// of the units in it.
func (w *world) addHostSlice(r *rand.Rand, d cgroup.Driver) {
	t := cgroup.Target{Path: "system.slice", Unit: "system.slice", CPUs: cpuset.Of(0), Around: true}
	for _, in := range w.targets {
		if in.Unit != "" {
			t.CPUs = t.CPUs.Union(in.CPUs)
		}
	}
	w.tree.MkdirAll("system.slice/sshd.service")
	if r.IntN(2) == 0 {
		w.set(t.Path, randomSet(r, w.options.Possible.Len()))
	}
	if d == cgroup.DriverSystemd {
		w.remember(r, "system.slice", randomSet(r, w.options.Possible.Len()), cpuset.Set{})
	}
	w.targets = append(w.targets, t)
}

// addPodSlices gives some slices of pods the CPUs of their containers, or all CPUs.
func (w *world) addPodSlices(r *rand.Rand, d cgroup.Driver) {
	slices := map[cgroup.Path]cpuset.Set{}
	before := map[cgroup.Path]cpuset.Set{}
	current := w.current()
	for i := range w.targets {
		if t := &w.targets[i]; t.Unit == "" {
			p := t.Path.Parent()
			slices[p] = slices[p].Union(t.CPUs)
			if before[p] = before[p].Union(current[t.Path].CPUs, w.recorded[t.Path], w.pending[t.Path]); current[t.Path].CPUs.IsEmpty() {
				before[p] = w.options.Possible
			}
		}
	}
	for i := range 4 { // of up to seven containers, in the same order with each run
		p := containerPath(d, 2*i).Parent()
		cpus := slices[p]
		if cpus.IsEmpty() || r.IntN(2) == 0 {
			continue
		}
		if r.IntN(3) == 0 {
			cpus = w.options.Possible
		}
		w.tree.MkdirAll(string(p))
		if r.IntN(2) == 0 {
			w.set(p, before[p].Union(randomSet(r, w.options.Possible.Len())))
		}
		w.targets = append(w.targets, cgroup.Target{Path: p, CPUs: cpus, Around: true})
	}
}

// begin puts a container where it is before the plan.
func (w *world) begin(r *rand.Rand, t cgroup.Target, place cpuset.Set) {
	mems := randomSet(r, w.options.Nodes.Len())
	switch {
	case t.Unit != "":
		w.units.Install(t.Unit, cpuset.Set{})
		w.remember(r, t.Unit, place, mems)
		if r.IntN(2) == 0 {
			w.must(w.units.Start(t.Unit))
		}
	case t.Container != "" && r.IntN(8) == 0:
		w.absent[t.Path] = true
	default:
		w.start(t.Path, w.systemd && r.IntN(5) == 0)
		if r.IntN(6) > 0 {
			w.set(t.Path, place)
		}
		if r.IntN(4) == 0 {
			w.must(w.tree.Write(string(t.Path)+"/cpuset.mems", mems.String()))
		}
		if w.systemd {
			w.remember(r, t.Path.Base(), place, mems)
		}
	}
	if t.Container == "" {
		return
	}
	switch r.IntN(4) {
	case 0:
	case 1:
		w.recorded[t.Path], w.mems[t.Path] = place, mems
	case 2:
		w.recorded[t.Path], w.mems[t.Path] = t.CPUs, t.Mems
	case 3:
		w.recorded[t.Path] = randomSet(r, w.options.Possible.Len())
	}
	if r.IntN(10) == 0 {
		w.pending[t.Path] = randomSet(r, w.options.Possible.Len())
	}
}

// remember gives some units properties.
func (w *world) remember(r *rand.Rand, unit string, cpus, mems cpuset.Set) {
	var properties []systemd.Property
	for _, p := range []systemd.Property{
		{Name: cgroup.UnitCPUs, Value: cpus.String()}, {Name: cgroup.UnitMems, Value: mems.String()}, {Name: cgroup.UnitQuota, Value: "500000"},
	} {
		if r.IntN(4) == 0 {
			properties = append(properties, p)
		}
	}
	if len(properties) > 0 {
		w.must(w.units.SetProperties(context.Background(), unit, properties))
	}
}

func containerPath(d cgroup.Driver, i int) cgroup.Path {
	if d == cgroup.DriverCgroupfs {
		return cgroup.Path(fmt.Sprintf("kubepods/pod%d/c%d", i/2, i))
	}
	return cgroup.Path(fmt.Sprintf("kubepods.slice/kubepods-pod%d.slice/cri-containerd-c%d.scope", i/2, i))
}

type placement struct {
	cpus      cpuset.Set
	exclusive bool
	mixed     cpuset.Set // shared CPUs in addition
}

func (p placement) runs() cpuset.Set { return p.cpus.Union(p.mixed) }

// randomPlan deals the CPUs out: some to exclusive containers, the rest to all
// others, and to some of the exclusive ones too.
func randomPlan(r *rand.Rand, containers, cpus int) []placement {
	owned := make(map[int][]int)
	var rest []int
	for cpu := range cpus {
		owner := r.IntN(2 * containers)
		if cpu == 0 || owner >= containers {
			rest = append(rest, cpu)
			continue
		}
		owned[owner] = append(owned[owner], cpu)
	}
	plan := make([]placement, containers)
	for i := range plan {
		if cpus := owned[i]; len(cpus) > 0 {
			plan[i] = placement{cpus: cpuset.Of(cpus...), exclusive: true}
			if r.IntN(3) == 0 {
				plan[i].mixed = cpuset.Of(rest...)
			}
			continue
		}
		plan[i].cpus = cpuset.Of(rest...)
	}
	return plan
}

// groupPods lets both containers of some pods share the exclusive CPUs of one of them. It
// returns the groups of all containers.
func groupPods(plan []placement, r *rand.Rand) []string {
	groups := make([]string, len(plan))
	for i := 1; i < len(plan); i += 2 {
		if plan[i-1].exclusive && plan[i-1].mixed.IsEmpty() && r.IntN(2) == 0 {
			plan[i] = plan[i-1]
			groups[i-1], groups[i] = fmt.Sprint("pod", i/2), fmt.Sprint("pod", i/2)
		}
	}
	return groups
}

func randomSet(r *rand.Rand, cpus int) cpuset.Set {
	set := cpuset.Of(r.IntN(cpus))
	for cpu := range cpus {
		if r.IntN(3) == 0 {
			set = set.Union(cpuset.Of(cpu))
		}
	}
	return set
}

// FuzzDiff applies the lists of random worlds write by write, with a failure in
// the middle of some, and checks each prefix.
func FuzzDiff(f *testing.F) {
	for seed := range uint64(400) {
		f.Add(seed, seed%5)
	}
	f.Fuzz(func(t *testing.T, seed, failAt uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := randomWorld(r)
		checkOrderIndependent(t, r, w)
		if failAt > 0 {
			w.applyUntilFailure(t, int(failAt-1)%16)
		}
		if failAt%3 == 0 {
			w.applyDuringWrites(t, r)
		}
		w.settle(t)
	})
}

func checkOrderIndependent(t *testing.T, r *rand.Rand, w *world) {
	writes, deferred := w.diff()
	r.Shuffle(len(w.targets), func(i, j int) { w.targets[i], w.targets[j] = w.targets[j], w.targets[i] })
	again, deferredAgain := w.diff()
	if d := cmp.Diff(writes, again); d != "" {
		t.Errorf("writes depend on the order of targets:\n%s", d)
	}
	if d := cmp.Diff(deferred, deferredAgain); d != "" {
		t.Errorf("deferred depend on the order of targets:\n%s", d)
	}
}

// applyUntilFailure fails the write with the given number, and all further ones for the
// same cgroup by the same method, as the daemon's passes would meet them. Then the
// cause goes away.
func (w *world) applyUntilFailure(t *testing.T, failAt int) {
	writes, _ := w.diff()
	if failAt >= len(writes) {
		return
	}
	g := w.guard()
	for _, x := range writes[:failAt] {
		w.mustApply(t, x)
		g.check(t, x.String())
	}
	failed := writes[failAt]
	if failed.Via == cgroup.File {
		w.noWrite[failed.Path] = true
		w.tree.Intercept(func(x testnode.CgroupWrite) error {
			if x.Name == string(failed.Path.Join(failed.Property)) {
				return syscall.EBUSY
			}
			return nil
		})
	} else {
		w.noRecord[failed.Path] = true
	}
	if err := w.apply(failed); err == nil {
		t.Fatalf("%s succeeded; want the injected error", failed)
	}
	writes, _ = w.diff()
	for _, x := range writes {
		w.mustApply(t, x)
		g.check(t, "failure of "+failed.String()+" and "+x.String())
	}
	w.tree.Intercept(nil)
	clear(w.noRecord)
	clear(w.noWrite)
}

// applyDuringWrites carries out a list while another process keeps writing some cgroups.
// Their CPUs may be worse than the desired ones, but not overlap an owner's.
func (w *world) applyDuringWrites(t *testing.T, r *rand.Rand) {
	files := []string{cgroup.FileCPUs, cgroup.FileMems, cgroup.FileWeight, cgroup.FileMax}
	for _, target := range w.targets {
		confined := slices.ContainsFunc(w.targets, func(t cgroup.Target) bool { return t.Confines() && t.Path == target.Path.Parent() })
		if r.IntN(3) == 0 && !confined { // a confined one keeps no CPUs
			w.left[target.Path] = append(w.left[target.Path], files[r.IntN(len(files))])
		}
	}
	writes, _ := w.diff()
	g := w.guard()
	for _, x := range writes {
		file, at := x.Property, x.Path.Scope()
		switch x.Property {
		case cgroup.CRICPUs, cgroup.UnitCPUs:
			file = cgroup.FileCPUs
		case cgroup.CRIMems, cgroup.UnitMems:
			file = cgroup.FileMems
		case cgroup.UnitWeight:
			file = cgroup.FileWeight
		case cgroup.UnitQuota:
			file = cgroup.FileMax
		}
		if slices.Contains(w.left[at], file) {
			t.Errorf("%s although its repair is paused", x)
		}
		w.mustApply(t, x)
		g.check(t, x.String())
	}
	clear(w.left)
}

func (w *world) mustApply(t *testing.T, x cgroup.Write) {
	t.Helper()
	if err := w.apply(x); err != nil {
		t.Fatalf("apply %s: %v", x, err)
	}
	if x.Property == cgroup.FileMems || x.Property == cgroup.UnitMems || x.Property == cgroup.CRIMems {
		w.checkBound(t, x)
	}
}

// checkBound is called after writes of memory nodes: the cgroup is on its CPUs.
func (w *world) checkBound(t *testing.T, x cgroup.Write) {
	t.Helper()
	if w.disturbed {
		return
	}
	current := w.current()
	for _, target := range w.targets {
		c := current[target.Path]
		if target.Path == x.Path.Scope() && c.Exists && !target.CPUs.IsEmpty() && !c.CPUs.Equal(target.CPUs) {
			t.Errorf("%s although it is on the CPUs %s, want %s", x, c.CPUs, target.CPUs)
		}
	}
}

// settle applies passes until nothing is left and checks that all cgroups are in the
// desired state.
func (w *world) settle(t *testing.T) {
	var deferred []cgroup.Deferred
	for pass := 0; ; pass++ {
		if pass == 4 {
			t.Fatal("passes = 4 without an end; want fewer")
		}
		if pass == 1 {
			w.options.Leaving = nil
		}
		var writes []cgroup.Write
		writes, deferred = w.diff()
		g := w.guard()
		w.disturbed = g.inFlight
		for p, cpus := range w.pending { // updates in flight arrive before the writes of the list
			w.mustApply(t, cgroup.Write{Path: p, Via: cgroup.CRI, Value: cpus.String()})
			g.check(t, "arrival of the update of "+string(p))
		}
		if len(writes) == 0 && pass > 1 {
			break
		}
		for _, x := range writes {
			w.mustApply(t, x)
			g.check(t, x.String())
		}
	}
	if len(deferred) > 0 {
		if w.options.Spare.IsEmpty() && w.stuckInCircle(deferred) {
			return
		}
		t.Fatalf("deferred at the end = %v; want none", deferred)
	}
	w.verify(t)
}

// stuckInCircle reports whether no step is possible: each waiting cgroup is on a single CPU or
// keeps the CPUs that it has of its target. A slice waits for such cgroups.
func (w *world) stuckInCircle(deferred []cgroup.Deferred) bool {
	current := w.current()
	waiting := map[cgroup.Path]bool{}
	for _, x := range deferred {
		waiting[x.Path] = true
	}
	for _, x := range deferred {
		for _, t := range w.targets {
			if t.Path == x.Path && t.Around {
				if len(x.WaitsFor) == 0 || slices.ContainsFunc(x.WaitsFor, func(p cgroup.Path) bool { return !waiting[p] }) {
					return false
				}
				continue
			}
			c := current[t.Path]
			on := c.Effective
			if !c.Exists {
				on = c.Recorded
			}
			if t.Path == x.Path && on.Len() > 1 && !on.Overlaps(t.CPUs) {
				return false
			}
		}
	}
	return true
}

func (w *world) verify(t *testing.T) {
	t.Helper()
	var occupants []invariants.Occupant
	for _, target := range w.targets {
		c := w.current()[target.Path]
		if !c.Recorded.Equal(target.CPUs) && (target.Container != "" || c.Unit.Known) {
			t.Errorf("%s: recorded %s, want %s", target.Path, c.Recorded, target.CPUs)
		}
		if target.Container != "" && !target.Mems.IsEmpty() && !c.RecordedMems.Equal(target.Mems) {
			t.Errorf("%s: recorded nodes %s, want %s", target.Path, c.RecordedMems, target.Mems)
		}
		if c.Unit.Known && (!c.Unit.CPUs.Equal(target.CPUs) || !target.Mems.IsEmpty() && !c.Unit.Mems.Equal(target.Mems)) {
			t.Errorf("%s: systemd has %s and nodes %s, want %s and %s", target.Path, c.Unit.CPUs, c.Unit.Mems, target.CPUs, target.Mems)
		}
		if !c.Exists {
			continue
		}
		if err := cgroup.Verify(target, c.State); err != nil {
			t.Error(err)
		}
		if target.Around {
			continue // it also has the exclusive CPUs of a unit in it
		}
		occupants = append(occupants, invariants.Occupant{Name: string(target.Path), CPUs: c.Effective.Difference(target.Mixed), Exclusive: target.Exclusive, Group: target.Group})
		if !target.Mixed.IsEmpty() {
			occupants = append(occupants, invariants.Occupant{Name: string(target.Path) + " shared CPUs", CPUs: c.Effective.Intersection(target.Mixed)})
		}
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		t.Error(err)
	}
}
