package conformance

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// nodes are the NUMA nodes that the suite needs.
func nodes() cpuset.Set { return cpuset.Of(0, 1) }

// knows checks what systemd says of a unit.
func (b *unitBench) knows(want cgroup.Unit) {
	b.Helper()
	want.Known = want.Load == "loaded"
	if !want.Known {
		want.Quota = 0
	}
	got, err := b.m.Unit(b.Context(), want.Name)
	got.Files = nil // a matter of the machine's
	if d := cmp.Diff(want, got); d != "" || err != nil {
		b.Errorf("unit %s: %v (-want +got):\n%s", want.Name, err, d)
	}
}

func (b *unitBench) notFound() {
	b.knows(cgroup.Unit{Name: "conformance-nobody.service", Load: "not-found", Active: "inactive"})
}

// stopped gives a unit properties before its first start: it starts with them, and
// keeps them through reloads and restarts.
func (b *unitBench) stopped() {
	const unit = "conformance-stopped.service"
	b.i.Install(b, unit, "")
	is := cgroup.Unit{
		Name: unit, Load: "loaded", Active: "inactive", Path: "system.slice/" + unit, UnitState: cgroup.UnitState{Quota: -1},
	}
	b.knows(is)
	b.set(unit, cgroup.Property{Name: cgroup.UnitCPUs, Value: "1-2"}, cgroup.Property{Name: cgroup.UnitMems, Value: "1"},
		cgroup.Property{Name: cgroup.UnitQuota, Value: cgroup.ValueInf})
	is.CPUs, is.Mems = cpuset.Of(1, 2), cpuset.Of(1)
	b.knows(is)
	b.i.Reload(b)
	b.knows(is)
	for range 2 {
		b.i.Start(b, unit)
		is.Active = "active"
		b.knows(is)
		b.binds(is.Path, "1-2", "1")
		b.i.Reload(b)
		b.knows(is)
		b.binds(is.Path, "1-2", "1")
		b.i.Stop(b, unit)
		is.Active = "inactive"
		b.knows(is)
	}
}

// binds checks what the kernel has, of its request and of what came of it.
func (b *unitBench) binds(p cgroup.Path, cpus, mems string) {
	b.Helper()
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	if s.CPUs.String() != cpus || s.Mems.String() != mems || !s.CPUs.IsEmpty() && !s.Effective.Equal(s.CPUs) || !s.EffectiveMems.Equal(s.Mems) {
		b.Errorf("%s has CPUs %q (effective %q) and nodes %q (%q); want %q and %q", p, s.CPUs, s.Effective, s.Mems, s.EffectiveMems, cpus, mems)
	}
}

// template: an instance has properties of its own, and a slice of its template's.
func (b *unitBench) template() {
	const unit = "conformancet@1.service"
	b.i.Install(b, "conformancet@.service", "")
	b.set(unit, cgroup.Property{Name: cgroup.UnitCPUs, Value: "3"})
	is := cgroup.Unit{
		Name: unit, Load: "loaded", Active: "inactive", Path: "system.slice/system-conformancet.slice/" + unit,
		UnitState: cgroup.UnitState{CPUs: cpuset.Of(3), Quota: -1},
	}
	b.knows(is)
	b.i.Reload(b)
	b.i.Start(b, unit)
	is.Active = "active"
	b.knows(is)
	b.binds(is.Path, "3", "")
	b.i.Stop(b, unit)
	is.Active = "inactive"
	b.knows(is)
	b.knows(cgroup.Unit{
		Name: "conformancet@2.service", Load: "loaded", Active: "inactive", Path: "system.slice/system-conformancet.slice/conformancet@2.service",
		UnitState: cgroup.UnitState{Quota: -1},
	})
}

// revert gives units their own properties back, and the kernel's value with them.
func (b *unitBench) revert() {
	const own, bare = "conformance-own.service", "conformance-bare.service"
	b.i.Install(b, own, "0-1")
	b.i.Install(b, bare, "")
	for unit, original := range map[string]string{own: "0-1", bare: ""} {
		p := cgroup.Path("system.slice/" + unit)
		is := cgroup.Unit{Name: unit, Load: "loaded", Active: "active", Path: p, UnitState: cgroup.UnitState{Quota: -1}}
		b.i.Start(b, unit)
		var err error
		if is.CPUs, err = cpuset.Parse(original); err != nil {
			b.Fatal(err)
		}
		b.knows(is)
		originals := []cgroup.Property{{Name: cgroup.UnitCPUs, Value: original}, {Name: cgroup.UnitMems}, {Name: cgroup.UnitQuota, Value: cgroup.ValueInf}}
		b.set(unit, cgroup.Property{Name: cgroup.UnitCPUs, Value: "2-3"}, cgroup.Property{Name: cgroup.UnitMems, Value: "1"},
			cgroup.Property{Name: cgroup.UnitQuota, Value: "500000"})
		b.binds(p, "2-3", "1")
		if err := b.m.Revert(b.Context(), unit, originals, nodes()); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			b.knows(is)
			b.unbound(p, is.CPUs)
			b.i.Reload(b)
		}
		b.i.Stop(b, unit)
		b.set(unit, cgroup.Property{Name: cgroup.UnitCPUs, Value: "2-3"})
		if err := b.m.Revert(b.Context(), unit, originals, nodes()); err != nil {
			b.Fatal(err)
		}
		is.Active = "inactive"
		b.knows(is)
	}
}

// unbound checks that the kernel has the CPUs, all of them if there are none, and
// all nodes.
func (b *unitBench) unbound(p cgroup.Path, cpus cpuset.Set) {
	b.Helper()
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	if cpus.IsEmpty() {
		cpus = s.ParentEffective
	}
	if !s.Effective.Equal(cpus) || !s.Mems.IsEmpty() && !s.EffectiveMems.Equal(nodes()) {
		b.Errorf("%s runs on %s with memory of %s; want CPUs %s and all nodes", p, s.Effective, s.EffectiveMems, cpus)
	}
}

// watch tells of starts and stops, and of nobody else's.
func (b *unitBench) watch() {
	const unit, other = "conformance-watched.service", "conformance-other.service"
	b.i.Install(b, unit, "")
	b.i.Install(b, other, "")
	ctx, cancel := context.WithCancel(b.Context())
	wakes, ended := make(chan string, 256), make(chan error, 1)
	go func() {
		ended <- b.m.WatchUnits(ctx, []string{unit, "conformance-nobody.service"}, func(unit string) { wakes <- unit })
	}()
	b.wakes(wakes, ended, "", "start of the watch")
	b.i.Start(b, other)
	b.i.Start(b, unit)
	b.wakes(wakes, ended, unit, "start")
	for b.active(unit) != "active" { // of a start some signals come before its end
		b.wakes(wakes, ended, unit, "end of the start")
	}
	for len(wakes) > 0 {
		<-wakes
	}
	b.i.Stop(b, unit)
	b.wakes(wakes, ended, unit, "stop")
	b.i.Stop(b, other)
	cancel()
	if err := <-ended; err != nil {
		b.Errorf("WatchUnits = %v at the end of its context", err)
	}
	close(wakes)
	for got := range wakes {
		if got != unit {
			b.Errorf("woken for %q; want only %s", got, unit)
		}
	}
}

// idle units, stopped or not there, do not wake those who ask for them. The start
// of another tells that what the questions have caused has been told of.
func (b *unitBench) idle() {
	const stopped, nobody, last = "conformance-idle.service", "conformance-nobody.service", "conformance-last.service"
	b.i.Install(b, stopped, "")
	b.i.Install(b, last, "")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wakes, ended := make(chan string, 256), make(chan error, 1)
	go func() {
		ended <- b.m.WatchUnits(ctx, []string{stopped, nobody, last}, func(unit string) { wakes <- unit })
	}()
	b.wakes(wakes, ended, "", "start of the watch")
	for range 3 {
		b.active(stopped)
		b.active(nobody)
	}
	b.i.Start(b, last)
	b.wakes(wakes, ended, last, "start, and not by questions")
	b.i.Stop(b, last)
}

func (b *unitBench) active(unit string) string {
	b.Helper()
	u, err := b.m.Unit(b.Context(), unit)
	if err != nil {
		b.Fatal(err)
	}
	return u.Active
}

func (b *unitBench) wakes(wakes <-chan string, ended <-chan error, want, what string) {
	b.Helper()
	select {
	case got := <-wakes:
		if got != want {
			b.Errorf("%s: woken for %q, want %q", what, got, want)
		}
	case err := <-ended:
		b.Fatalf("WatchUnits = %v before the %s", err, what)
	case <-time.After(time.Minute):
		b.Fatalf("not woken by the %s", what)
	}
}

// namedPlan lets Diff prepare a unit that is stopped, and find nothing to do when
// it has started.
func (b *unitBench) namedPlan() {
	const unit = "conformance-du.service"
	b.i.Install(b, unit, "")
	p := cgroup.Path("system.slice/" + unit)
	targets := []cgroup.Target{{Path: p, Unit: unit, CPUs: cpuset.Of(2, 3), Exclusive: true, Mems: cpuset.Of(0), Unlimited: true}}
	options := cgroup.Options{Driver: cgroup.DriverCgroupfs, Possible: cpuset.Range(0, 3), Nodes: nodes()}
	b.set(unit, cgroup.Property{Name: cgroup.UnitQuota, Value: "500000"})
	writes, deferred := cgroup.Diff(targets, b.named(unit), options)
	if len(writes) != 3 || len(deferred) > 0 { // CPUs, nodes, quota
		b.Errorf("writes %v, deferred %v; want 3 and none", writes, deferred)
	}
	for _, w := range writes {
		if err := b.m.Apply(b.Context(), w); err != nil {
			b.Fatal(err)
		}
	}
	for _, step := range []func(){func() {}, func() { b.i.Start(b, unit) }, func() { b.i.Reload(b) }} {
		step()
		if writes, deferred := cgroup.Diff(targets, b.named(unit), options); len(writes)+len(deferred) > 0 {
			b.Errorf("Diff afterwards: %v, %v; want nothing", writes, deferred)
		}
	}
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	if err := cgroup.Verify(targets[0], s); err != nil {
		b.Error(err)
	}
	b.i.Stop(b, unit)
}

// named is what the daemon would know of a unit.
func (b *unitBench) named(unit string) map[cgroup.Path]cgroup.Current {
	b.Helper()
	u, err := b.m.Unit(b.Context(), unit)
	if err != nil {
		b.Fatal(err)
	}
	c := cgroup.Current{Recorded: u.CPUs, RecordedKnown: true, Unit: u.UnitState}
	s, err := b.fs.Read(u.Path)
	switch {
	case err == nil:
		c.State, c.Exists = s, true
	case !isGone(err):
		b.Fatal(err)
	}
	return map[cgroup.Path]cgroup.Current{u.Path: c}
}
