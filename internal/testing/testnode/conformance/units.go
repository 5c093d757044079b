package conformance

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// Manager is systemd.Client or a fake of it.
type Manager interface {
	SetProperties(ctx context.Context, unit string, properties []systemd.Property) error
	Properties(ctx context.Context, unit string) (cgroup.UnitState, error)
	Apply(ctx context.Context, w cgroup.Write) error
	WatchReload(ctx context.Context, wake func()) error
	Unit(ctx context.Context, name string) (systemd.Unit, error)
	WatchUnits(ctx context.Context, units []string, wake func(unit string)) error
	Revert(ctx context.Context, unit string, originals []systemd.Property, nodes cpuset.Set) error
}

// Init is the systemd of the units in the suite. The machine has at least the CPUs 0-3 and the
// NUMA nodes 0 and 1.
type Init interface {
	// Scope starts a process in a scope with Delegate=yes, as container runtimes do. It returns
	// the scope's cgroup. The scope ends with the test.
	Scope(t testing.TB, name string) cgroup.Path
	// Reload is systemctl daemon-reload.
	Reload(t testing.TB)
	// Install adds a stopped service or template of services. allowed is its own AllowedCPUs=;
	// empty means unset. The file is removed after the test.
	Install(t testing.TB, unit, allowed string)
	// Start and Stop start and stop an installed service.
	Start(t testing.TB, unit string)
	Stop(t testing.TB, unit string)
}

// RunUnits runs the suite about systemd.
func RunUnits(t *testing.T, m Manager, i Init, fs *cgroup.FS) {
	for name, run := range map[string]func(*unitBench){
		"properties":      (*unitBench).properties,
		"raw writes":      (*unitBench).rawWrites,
		"unit that ended": (*unitBench).missing,
		"reload":          (*unitBench).reload,
		"plan":            (*unitBench).plan,
		"unit not found":  (*unitBench).notFound,
		"stopped unit":    (*unitBench).stopped,
		"template":        (*unitBench).template,
		"revert":          (*unitBench).revert,
		"watch":           (*unitBench).watch,
		"idle units":      (*unitBench).idle,
		"named plan":      (*unitBench).namedPlan,
	} {
		t.Run(name, func(t *testing.T) { run(&unitBench{t, m, i, fs}) })
	}
}

type unitBench struct {
	*testing.T
	m  Manager
	i  Init
	fs *cgroup.FS
}

func (b *unitBench) set(unit string, properties ...systemd.Property) {
	b.Helper()
	if err := b.m.SetProperties(b.Context(), unit, properties); err != nil {
		b.Fatal(err)
	}
}

// checkValues checks the values of systemd and of the kernel.
func (b *unitBench) checkValues(p cgroup.Path, unit cgroup.UnitState, cpus string, weight uint64, quota int64) {
	b.Helper()
	unit.Known = true
	name, _ := p.Unit()
	got, err := b.m.Properties(b.Context(), name)
	if d := cmp.Diff(unit, got); d != "" || err != nil {
		b.Errorf("properties of %s: %v (-want +got):\n%s", name, err, d)
	}
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	if s.CPUs.String() != cpus || s.Weight != weight || s.Quota != quota {
		b.Errorf("%s has CPUs %q, weight %d, quota %d; want %q, %d, %d", p, s.CPUs, s.Weight, s.Quota, cpus, weight, quota)
	}
}

func (b *unitBench) properties() {
	p := b.i.Scope(b, "conformance-properties.scope")
	unit, _ := p.Unit()
	b.checkValues(p, cgroup.UnitState{Quota: -1}, "", 100, -1)
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "1,3"})
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(1, 3), Quota: -1}, "1,3", 100, -1)
	b.set(unit, systemd.Property{Name: cgroup.UnitWeight, Value: "59"}, systemd.Property{Name: cgroup.UnitQuota, Value: "500000"})
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(1, 3), Weight: 59, Quota: 500000}, "1,3", 59, 50000)
	b.set(unit, systemd.Property{Name: cgroup.UnitQuota, Value: cgroup.ValueInf})
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(1, 3), Weight: 59, Quota: -1}, "1,3", 59, -1)
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "2"}, systemd.Property{Name: cgroup.UnitWeight})
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(2), Quota: -1}, "2", 100, -1)
}

// rawWrites checks that setting any property of a unit reverts raw writes to its cgroup.
func (b *unitBench) rawWrites() {
	p := b.i.Scope(b, "conformance-raw.scope")
	unit, _ := p.Unit()
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "1-2"})
	for file, value := range map[string]string{cgroup.FileWeight: "7", cgroup.FileCPUs: "0"} {
		if err := b.fs.Write(p, file, value); err != nil {
			b.Fatal(err)
		}
	}
	b.set(unit, systemd.Property{Name: cgroup.UnitQuota, Value: "500000"})
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(1, 2), Quota: 500000}, "1-2", 100, 50000)
}

func (b *unitBench) missing() {
	const unit = "conformance-missing.scope"
	err := b.m.SetProperties(b.Context(), unit, []systemd.Property{{Name: cgroup.UnitCPUs, Value: "1"}})
	if !errors.Is(err, cgroup.ErrGone) {
		b.Errorf("SetProperties(%s) = %v; want ErrGone", unit, err)
	}
	if _, err := b.m.Properties(b.Context(), unit); !errors.Is(err, cgroup.ErrGone) {
		b.Errorf("Properties(%s) = %v; want ErrGone", unit, err)
	}
}

func (b *unitBench) reload() {
	p := b.i.Scope(b, "conformance-reload.scope")
	unit, _ := p.Unit()
	b.set(unit, systemd.Property{Name: cgroup.UnitCPUs, Value: "1-2"}, systemd.Property{Name: cgroup.UnitWeight, Value: "59"})
	ctx, cancel := context.WithCancel(b.Context())
	woken, ended := make(chan struct{}, 8), make(chan error, 1)
	go func() { ended <- b.m.WatchReload(ctx, func() { woken <- struct{}{} }) }()
	b.await(woken, ended, "start")
	b.i.Reload(b)
	b.await(woken, ended, "reload")
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(1, 2), Weight: 59, Quota: -1}, "1-2", 59, -1)
	cancel()
	if err := <-ended; err != nil {
		b.Errorf("WatchReload = %v at the end of its context", err)
	}
}

func (b *unitBench) await(woken <-chan struct{}, ended <-chan error, what string) {
	b.Helper()
	select {
	case <-woken:
	case err := <-ended:
		b.Fatalf("WatchReload = %v before the %s", err, what)
	case <-time.After(time.Minute):
		b.Fatalf("not woken by the %s", what)
	}
}

// plan checks that systemd and the kernel have the values of a plan after its writes.
func (b *unitBench) plan() {
	p := b.i.Scope(b, "conformance-plan.scope")
	unit, _ := p.Unit()
	b.set(unit, systemd.Property{Name: cgroup.UnitQuota, Value: "500000"})
	targets := []cgroup.Target{{Path: p, CPUs: cpuset.Of(2, 3), Exclusive: true, Weight: 59, Unlimited: true}}
	options := cgroup.Options{Driver: cgroup.DriverSystemd, Possible: cpuset.Range(0, 3)}
	writes, _ := cgroup.Diff(targets, b.current(p), options)
	for _, w := range writes {
		apply := func() error { return b.m.Apply(b.Context(), w) }
		if w.Via == cgroup.File {
			apply = func() error { return b.fs.Apply(w) }
		}
		if err := apply(); err != nil {
			b.Fatal(err)
		}
	}
	if len(writes) != 4 { // raw, persisted, weight, quota
		b.Errorf("writes: %v; want 4", writes)
	}
	b.checkValues(p, cgroup.UnitState{CPUs: cpuset.Of(2, 3), Weight: 59, Quota: -1}, "2-3", 59, -1)
	if writes, deferred := cgroup.Diff(targets, b.current(p), options); len(writes)+len(deferred) > 0 {
		b.Errorf("second Diff: %v, %v; want nothing", writes, deferred)
	}
}

func (b *unitBench) current(p cgroup.Path) map[cgroup.Path]cgroup.Current {
	b.Helper()
	unit, _ := p.Unit()
	held, err := b.m.Properties(b.Context(), unit)
	if err != nil {
		b.Fatal(err)
	}
	s, err := b.fs.Read(p)
	if err != nil {
		b.Fatal(err)
	}
	return map[cgroup.Path]cgroup.Current{p: {State: s, Exists: true, Recorded: held.CPUs, RecordedKnown: true, Unit: held}}
}
