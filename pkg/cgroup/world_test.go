package cgroup_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// world is a node for tests of Diff: a tree with a systemd over it, and the values that
// a runtime has recorded.
type world struct {
	tree    *testnode.Cgroups
	fs      *cgroup.FS
	units   *testnode.Units
	systemd bool // the driver: containers are units too
	options cgroup.Options

	targets  []cgroup.Target
	absent   map[cgroup.Path]bool       // created, not started
	recorded map[cgroup.Path]cpuset.Set // by the runtime
	mems     map[cgroup.Path]cpuset.Set // likewise
	pending  map[cgroup.Path]cpuset.Set
	noRecord map[cgroup.Path]bool
	noWrite  map[cgroup.Path]bool
	left     map[cgroup.Path][]string
	tasks    int
	// disturbed reports that updates arrive that were in flight when the list was made.
	disturbed bool
}

// The values in the specs of the world's containers.
const (
	specWeight = 59
	specQuota  = 50_000
)

func newWorld(d cgroup.Driver, cpus int) *world {
	all := cpuset.Range(0, cpus-1)
	w := &world{
		tree:     testnode.NewCgroups(testnode.CgroupConfig{Possible: all, Nodes: cpuset.Range(0, 2)}),
		systemd:  d == cgroup.DriverSystemd,
		options:  cgroup.Options{Driver: d, Possible: all, Nodes: cpuset.Range(0, 2)},
		absent:   map[cgroup.Path]bool{},
		recorded: map[cgroup.Path]cpuset.Set{},
		mems:     map[cgroup.Path]cpuset.Set{},
		pending:  map[cgroup.Path]cpuset.Set{},
		noRecord: map[cgroup.Path]bool{},
		noWrite:  map[cgroup.Path]bool{},
		left:     map[cgroup.Path][]string{},
	}
	w.fs = cgroup.New(w.tree)
	w.units = testnode.NewUnits(w.tree)
	return w
}

// start makes a cgroup with a task in it; with inner as crun does.
func (w *world) start(p cgroup.Path, inner bool) {
	place := string(p)
	if inner {
		place += "/container"
	}
	w.tree.MkdirAll(place)
	w.tasks++
	w.must(w.tree.Write(place+"/cgroup.procs", fmt.Sprint(w.tasks)))
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

// set writes a request past the daemon.
func (w *world) set(p cgroup.Path, cpus cpuset.Set) {
	if !cpus.IsEmpty() {
		w.must(w.tree.Write(string(p)+"/cpuset.cpus", cpus.String()))
	}
}

// current returns the state that the daemon would read.
func (w *world) current() map[cgroup.Path]cgroup.Current {
	current := map[cgroup.Path]cgroup.Current{}
	for _, t := range w.targets {
		c := cgroup.Current{Pending: w.pending[t.Path], NoRecord: w.noRecord[t.Path], NoWrite: w.noWrite[t.Path], Left: w.left[t.Path]}
		state, err := w.fs.Read(t.Path)
		switch {
		case err == nil:
			c.State, c.Exists = state, true
		case !errors.Is(err, cgroup.ErrGone):
			panic(err)
		case !w.absent[t.Path] && t.Unit == "":
			continue
		}
		if unit := w.unitOf(t, c.Exists); unit != "" {
			c.Unit, err = w.units.Properties(context.Background(), unit)
			w.must(err)
			c.Recorded, c.RecordedKnown = c.Unit.CPUs, true
		}
		if t.Container != "" {
			c.Recorded, c.RecordedMems, c.RecordedKnown = w.recorded[t.Path], w.mems[t.Path], true
		}
		current[t.Path] = c
	}
	return current
}

// unitOf is the unit that systemd has for a target.
func (w *world) unitOf(t cgroup.Target, exists bool) string {
	if unit, ok := t.Path.Unit(); ok && w.systemd && exists {
		return unit
	}
	return t.Unit
}

func (w *world) diff() ([]cgroup.Write, []cgroup.Deferred) {
	return cgroup.Diff(w.targets, w.current(), w.options)
}

var errRefused = errors.New("refused")

func (w *world) apply(x cgroup.Write) error {
	if x.Via != cgroup.File && w.noRecord[x.Path] {
		return errRefused
	}
	switch x.Via {
	case cgroup.File:
		return w.fs.Apply(x)
	case cgroup.DBus:
		return w.units.Apply(context.Background(), x)
	case cgroup.CRI:
		return w.update(x)
	}
	return fmt.Errorf("unknown way %s", x.Via)
}

// update is UpdateContainerResources as containerd does it: the set goes into the
// spec, and the whole spec to the cgroup.
func (w *world) update(x cgroup.Write) error {
	set, err := cpuset.Parse(x.Value)
	if err != nil {
		return err
	}
	if x.Property == cgroup.CRIMems {
		if cpus, ok := w.pending[x.Path]; ok { // it was submitted before
			w.must(w.update(cgroup.Write{Path: x.Path, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: cpus.String()}))
		}
		w.mems[x.Path] = set
	} else {
		w.recorded[x.Path] = set
		delete(w.pending, x.Path)
	}
	if w.absent[x.Path] {
		return nil
	}
	properties := []systemd.Property{
		{Name: cgroup.UnitWeight, Value: fmt.Sprint(specWeight)},
		{Name: cgroup.UnitQuota, Value: fmt.Sprint(specQuota * 10)},
	}
	errs := []error{
		w.tree.Write(string(x.Path)+"/cpu.weight", fmt.Sprint(specWeight)),
		w.tree.Write(string(x.Path)+"/cpu.max", fmt.Sprint(specQuota)),
	}
	for _, set := range []struct {
		file, property string
		value          cpuset.Set
	}{{cgroup.FileCPUs, cgroup.UnitCPUs, w.recorded[x.Path]}, {cgroup.FileMems, cgroup.UnitMems, w.mems[x.Path]}} {
		if !set.value.IsEmpty() { // unrecorded values do not change
			properties = append(properties, systemd.Property{Name: set.property, Value: set.value.String()})
			errs = append(errs, w.tree.Write(string(x.Path)+"/"+set.file, set.value.String()))
		}
	}
	if unit, ok := x.Path.Unit(); ok && w.systemd {
		return w.units.SetProperties(context.Background(), unit, properties)
	}
	return errors.Join(errs...)
}

// reach returns the CPUs on which a cgroup's tasks run, or may run without an own
// write. A container without cgroup and record may start anywhere.
func reach(c cgroup.Current, all cpuset.Set) cpuset.Set {
	if adrift(c) {
		return all
	}
	return c.Effective.Union(c.Recorded, c.Pending, c.Unit.CPUs)
}

func adrift(c cgroup.Current) bool {
	return !c.Exists && c.Recorded.IsEmpty() && c.Pending.IsEmpty()
}

type pair [2]cgroup.Path

// guard checks the invariants at each prefix of a list: the overlap of two cgroups, of
// which one is exclusive, never grows.
type guard struct {
	w *world
	// effective has the kernel's sets; reached adds CPUs that a record may bring back.
	effective, reached map[pair]cpuset.Set
	inFlight           bool
	// following lists the units that run on the CPUs of the slice around them.
	following map[cgroup.Path]bool
}

func (w *world) guard() *guard {
	g := &guard{w: w, inFlight: len(w.pending) > 0}
	current := w.current()
	g.effective, g.reached = g.overlaps(current)
	g.following = w.followers(current)
	return g
}

// followers returns the units without available exclusive CPUs in the slice around
// them. Until they are placed, they are part of the slice.
func (w *world) followers(current map[cgroup.Path]cgroup.Current) map[cgroup.Path]bool {
	all := map[cgroup.Path]bool{}
	for _, slice := range w.targets {
		for p, c := range current {
			if slice.Around && c.Exists && p.Parent() == slice.Path && !c.CPUs.Overlaps(c.ParentEffective) {
				all[p] = true
			}
		}
	}
	return all
}

func (g *guard) overlaps(current map[cgroup.Path]cgroup.Current) (effective, reached map[pair]cpuset.Set) {
	effective, reached = map[pair]cpuset.Set{}, map[pair]cpuset.Set{}
	all := g.w.options.Possible
	slices := map[cgroup.Path]cpuset.Set{} // the CPUs that containers of pods can reach
	for _, t := range g.w.targets {
		if c := current[t.Path]; t.Confines() && !c.CPUs.IsEmpty() {
			slices[t.Path] = c.CPUs.Union(c.Unit.CPUs)
		}
	}
	reaches := func(t *cgroup.Target) cpuset.Set {
		c := current[t.Path]
		if bound, ok := slices[t.Path.Parent()]; ok {
			return c.Effective.Union(reach(c, all).Intersection(bound))
		}
		return reach(c, all)
	}
	for i, a := range g.w.targets {
		for p, cpus := range g.w.options.Leaving {
			if c := current[a.Path]; !a.CPUs.IsEmpty() && !a.Confines() {
				effective[pair{a.Path, p}], reached[pair{a.Path, p}] = c.Effective.Intersection(cpus), reaches(&a).Intersection(cpus)
			}
		}
		for _, b := range g.w.targets[i+1:] {
			if a.CPUs.IsEmpty() || b.CPUs.IsEmpty() || !a.Exclusive && !b.Exclusive || a.Around || b.Around {
				continue
			}
			if _, ok := slices[a.Path.Parent()]; ok && a.Path.Parent() == b.Path.Parent() {
				continue // the slice keeps them from others only
			}
			ca, cb := current[a.Path], current[b.Path]
			conflict := conflicting(&a, &b, all)
			effective[pair{a.Path, b.Path}] = ca.Effective.Intersection(cb.Effective).Intersection(conflict)
			reached[pair{a.Path, b.Path}] = reaches(&a).Intersection(reaches(&b)).Intersection(conflict)
		}
	}
	return effective, reached
}

// conflicting returns the CPUs that two targets must not share: all CPUs, except CPUs that the
// plan lets exclusive targets share.
func conflicting(a, b *cgroup.Target, all cpuset.Set) cpuset.Set {
	var conflict cpuset.Set
	if a.Group != "" && a.Group == b.Group {
		return conflict
	}
	for _, t := range []*cgroup.Target{a, b} {
		if t.Exclusive {
			conflict = conflict.Union(all.Difference(t.Mixed))
		}
	}
	return conflict
}

// check is called after each write.
func (g *guard) check(t testing.TB, after string) {
	t.Helper()
	current := g.w.current()
	for p, c := range current {
		if c.Exists && c.Effective.IsEmpty() {
			t.Errorf("CPUs of %[2]s after %[1]s = none; want some", after, p)
		}
	}
	effective, reached := g.overlaps(current)
	following := g.following
	g.following = g.w.followers(current)
	for two := range reached {
		if following[two[0]] || following[two[1]] { // it counts from now on
			if g.inFlight { // the list was made when it ran on all CPUs of the slice
				reached[two] = reached[two].Union(g.reached[two])
			}
			g.effective[two], g.reached[two] = effective[two], reached[two]
			delete(reached, two)
			delete(effective, two)
		}
	}
	for two, cpus := range reached {
		if !cpus.IsSubsetOf(g.reached[two]) && !adrift(current[two[0]]) && !adrift(current[two[1]]) {
			t.Errorf("after %s: CPUs that %s and %s may both use = %s; want at most %s", after, two[0], two[1], cpus, g.reached[two])
		}
	}
	if g.inFlight { // late updates may only restore CPUs that cgroups may already use
		return
	}
	for two, cpus := range effective {
		if !cpus.IsSubsetOf(g.effective[two]) {
			t.Errorf("after %s: CPUs of both %s and %s = %s; want at most %s", after, two[0], two[1], cpus, g.effective[two])
		}
	}
	g.effective, g.reached = g.overlaps(current)
}
