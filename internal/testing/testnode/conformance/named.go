package conformance

import (
	"context"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// nodes returns the NUMA nodes that the suite needs.
func nodes() cpuset.Set { return cpuset.Of(0, 1) }

// checkUnit checks systemd's state of a unit.
func (b *unitBench) checkUnit(want systemd.Unit) {
	b.Helper()
	want.Known = want.Load == "loaded"
	if !want.Known {
		want.Quota = 0
	}
	got, err := b.m.Unit(b.Context(), want.Name)
	got.Files = nil // depends on the machine
	if d := cmp.Diff(want, got); d != "" || err != nil {
		b.Errorf("unit %s: %v (-want +got):\n%s", want.Name, err, d)
	}
}

func (b *unitBench) notFound() {
	b.checkUnit(systemd.Unit{Name: "conformance-missing.service", Load: "not-found", Active: "inactive"})
}

// stopped checks that properties set before the first start last through starts, reloads and
// restarts.
func (b *unitBench) stopped() {
	const unit = "conformance-stopped.service"
	b.i.Install(b, unit, "")
	is := systemd.Unit{
		Name: unit, Load: "loaded", Active: "inactive", Path: "system.slice/" + unit, UnitState: cgroup.UnitState{Quota: -1},
	}
	b.checkUnit(is)
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "1-2"}, systemd.Property{Name: cgroup.UnitMems, Value: "1"},
		systemd.Property{Name: cgroup.UnitQuota, Value: cgroup.ValueInf})
	is.CPUs, is.Mems = cpuset.Of(1, 2), cpuset.Of(1)
	b.checkUnit(is)
	b.i.Reload(b)
	b.checkUnit(is)
	for range 2 {
		b.i.Start(b, unit)
		is.Active = "active"
		b.checkUnit(is)
		b.checkBinding(is.Path, "1-2", "1")
		b.i.Reload(b)
		b.checkUnit(is)
		b.checkBinding(is.Path, "1-2", "1")
		b.i.Stop(b, unit)
		is.Active = "inactive"
		b.checkUnit(is)
	}
}

// checkBinding checks the requests in the kernel and their effective values.
func (b *unitBench) checkBinding(p cgroup.Path, cpus, mems string) {
	b.Helper()
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	if s.CPUs.String() != cpus || s.Mems.String() != mems || !s.CPUs.IsEmpty() && !s.Effective.Equal(s.CPUs) || !s.EffectiveMems.Equal(s.Mems) {
		b.Errorf("%s has CPUs %q (effective %q) and nodes %q (%q); want %q and %q", p, s.CPUs, s.Effective, s.Mems, s.EffectiveMems, cpus, mems)
	}
}

// template checks that an instance has its own properties, and the slice of its template.
func (b *unitBench) template() {
	const unit = "conformancet@1.service"
	b.i.Install(b, "conformancet@.service", "")
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "3"})
	is := systemd.Unit{
		Name: unit, Load: "loaded", Active: "inactive", Path: "system.slice/system-conformancet.slice/" + unit,
		UnitState: cgroup.UnitState{CPUs: cpuset.Of(3), Quota: -1},
	}
	b.checkUnit(is)
	b.i.Reload(b)
	b.i.Start(b, unit)
	is.Active = "active"
	b.checkUnit(is)
	b.checkBinding(is.Path, "3", "")
	b.i.Stop(b, unit)
	is.Active = "inactive"
	b.checkUnit(is)
	b.checkUnit(systemd.Unit{
		Name: "conformancet@2.service", Load: "loaded", Active: "inactive", Path: "system.slice/system-conformancet.slice/conformancet@2.service",
		UnitState: cgroup.UnitState{Quota: -1},
	})
}

// revert checks that units get their own properties back, with the values in the kernel.
func (b *unitBench) revert() {
	const own, bare = "conformance-own.service", "conformance-bare.service"
	b.i.Install(b, own, "0-1")
	b.i.Install(b, bare, "")
	for unit, original := range map[string]string{own: "0-1", bare: ""} {
		p := cgroup.Path("system.slice/" + unit)
		is := systemd.Unit{Name: unit, Load: "loaded", Active: "active", Path: p, UnitState: cgroup.UnitState{Quota: -1}}
		b.i.Start(b, unit)
		var err error
		if is.CPUs, err = cpuset.Parse(original); err != nil {
			b.Fatal(err)
		}
		b.checkUnit(is)
		originals := []systemd.Property{{Name: cgroup.UnitCPUs, Value: original}, {Name: cgroup.UnitMems}, {Name: cgroup.UnitQuota, Value: cgroup.ValueInf}}
		b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "2-3"}, systemd.Property{Name: cgroup.UnitMems, Value: "1"},
			systemd.Property{Name: cgroup.UnitQuota, Value: "500000"})
		b.checkBinding(p, "2-3", "1")
		if err := b.m.Revert(b.Context(), unit, originals, nodes()); err != nil {
			b.Fatal(err)
		}
		for range 2 {
			b.checkUnit(is)
			b.checkUnbound(p, is.CPUs)
			b.i.Reload(b)
		}
		b.i.Stop(b, unit)
		b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "2-3"})
		if err := b.m.Revert(b.Context(), unit, originals, nodes()); err != nil {
			b.Fatal(err)
		}
		is.Active = "inactive"
		b.checkUnit(is)
	}
}

// checkUnbound checks that the kernel has cpus and all nodes. An empty cpus means all CPUs.
func (b *unitBench) checkUnbound(p cgroup.Path, cpus cpuset.Set) {
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

// watch checks that starts and stops of watched units are reported, and of no other unit.
func (b *unitBench) watch() {
	const unit, other = "conformance-watched.service", "conformance-other.service"
	b.i.Install(b, unit, "")
	b.i.Install(b, other, "")
	ctx, cancel := context.WithCancel(b.Context())
	wakes, ended := make(chan string, 256), make(chan error, 1)
	go func() {
		ended <- b.m.WatchUnits(ctx, []string{unit, "conformance-missing.service"}, func(unit string) { wakes <- unit })
	}()
	b.awaitWake(wakes, ended, "", "start of the watch")
	b.i.Start(b, other)
	b.i.Start(b, unit)
	b.awaitWake(wakes, ended, unit, "start")
	for b.active(unit) != "active" { // systemd sends some signals before the start is complete
		b.awaitWake(wakes, ended, unit, "end of the start")
	}
	for len(wakes) > 0 {
		<-wakes
	}
	b.i.Stop(b, unit)
	b.awaitWake(wakes, ended, unit, "stop")
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

// idle checks that queries about stopped and missing units do not wake the watcher. The start of
// another unit shows that all earlier signals have arrived.
func (b *unitBench) idle() {
	const stopped, missing, last = "conformance-idle.service", "conformance-missing.service", "conformance-last.service"
	b.i.Install(b, stopped, "")
	b.i.Install(b, last, "")
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	wakes, ended := make(chan string, 256), make(chan error, 1)
	go func() {
		ended <- b.m.WatchUnits(ctx, []string{stopped, missing, last}, func(unit string) { wakes <- unit })
	}()
	b.awaitWake(wakes, ended, "", "start of the watch")
	for range 3 {
		b.active(stopped)
		b.active(missing)
	}
	b.i.Start(b, last)
	b.awaitWake(wakes, ended, last, "start, and not by questions")
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

func (b *unitBench) awaitWake(wakes <-chan string, ended <-chan error, want, what string) {
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

// namedPlan checks that Diff prepares a stopped unit, and finds no writes after its start.
func (b *unitBench) namedPlan() {
	const unit = "conformance-du.service"
	b.i.Install(b, unit, "")
	p := cgroup.Path("system.slice/" + unit)
	targets := []cgroup.Target{{Path: p, Unit: unit, CPUs: cpuset.Of(2, 3), Exclusive: true, Mems: cpuset.Of(0), Unlimited: true}}
	options := cgroup.Options{Driver: cgroup.DriverCgroupfs, Possible: cpuset.Range(0, 3), Nodes: nodes()}
	b.set(unit, systemd.Property{Name: cgroup.UnitQuota, Value: "500000"})
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

// named returns the daemon's data about a unit.
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
