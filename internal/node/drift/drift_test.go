package drift_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const path = cgroup.Path("kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope")

var (
	own     = cpuset.Range(4, 5)
	targets = []cgroup.Target{{Container: "1", Path: path, CPUs: own, Weight: 59}}
	began   = time.Unix(1000, 0)
)

// kernel is a fake kernel with one cgroup.
type kernel struct {
	state cgroup.State
	gone  bool
}

func (k *kernel) Read(cgroup.Path) (cgroup.State, error) {
	if k.gone {
		return cgroup.State{}, cgroup.ErrGone
	}
	return k.state, nil
}
func (k *kernel) Check(st cgroup.State) (cgroup.State, error) { return st, nil }
func (k *kernel) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }
func (k *kernel) Usage(cgroup.Path) (time.Duration, error)    { return 0, nil }
func (k *kernel) Rest()                                       {}

// world is a Tracker with all that it reads, and a container on CPUs 4-5.
type world struct {
	*drift.Tracker
	kernel *kernel
	events []history.Event
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{kernel: new(kernel)}
	m, weights := inventory.New(cgroup.DriverSystemd), formula.New("")
	w.Tracker = drift.New(drift.Sources{
		Objects: m.Objects(), Cache: kernelstate.New(w.kernel, slog.New(slog.DiscardHandler)), Originals: undo.Document{}.Journal().Originals,
		Backoffs: retry.New(), Formula: &weights, Log: slog.New(slog.DiscardHandler),
		AddEvent: func(_ cgroup.Path, e history.Event) { w.events = append(w.events, e) },
	})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "1", State: cri.Running, CgroupsPath: "kubepods-pod1.slice:cri-containerd:1"}})
	w.read(t, own, 59)
	w.Open(began, nothing)
	return w
}

func nothing(cgroup.Path) bool { return false }

// read reads the cgroup again, with these values.
func (w *world) read(t *testing.T, cpus cpuset.Set, weight uint64) {
	t.Helper()
	w.kernel.state = cgroup.State{Path: path, CPUs: cpus, Effective: cpus, Weight: weight, HasCPU: true, Populated: true, Quota: -1}
	w.Cache.Invalidate(path)
	if _, errs := w.Cache.Refresh(targets, w.Objects); len(errs) > 0 {
		t.Fatal(errs)
	}
}

// record returns the record of the container after an external write.
func record(t *testing.T, cpus string) drift.Record {
	t.Helper()
	return drift.FetchRecord(t.Context(), &hostenv.Host{Runtime: reply{container: cri.Container{ID: "1", Detailed: true, Recorded: cri.Resources{CPUs: cpus}}}}, targets[0])
}

// reply is a runtime that describes one container.
type reply struct {
	hostenv.Runtime
	container cri.Container
}

func (r reply) ContainerStatus(context.Context, string) (cri.Container, error) {
	return r.container, nil
}

// TestCause checks that a cause is reported only if the evidence has no other explanation.
func TestCause(t *testing.T) {
	found := make(map[telemetry.Cause]int)
	for bits := range 1 << 8 {
		bit := func(i int) bool { return bits>>i&1 == 1 }
		e := drift.Evidence{
			RecordKnown: bit(0), RecordHad: bit(1), RecordHas: bit(2),
			UnitKnown: bit(3), UnitHad: bit(4), UnitHas: bit(5), Reload: bit(6), Kubelets: bit(7),
		}
		cause := e.Cause()
		found[cause]++
		var wrong bool
		switch cause {
		case telemetry.CauseRuntime:
			wrong = !e.RecordKnown || e.RecordHad || !e.RecordHas
		case telemetry.CauseSystemd:
			wrong = !e.UnitKnown || !e.UnitHad || !e.UnitHas || !e.Reload
		case telemetry.CauseKubelet:
			wrong = !e.UnitKnown || e.UnitHad || !e.UnitHas || !e.Kubelets || e.Reload
		}
		if wrong {
			t.Errorf("%+v: %s", e, cause)
		}
	}
	for _, cause := range []telemetry.Cause{telemetry.CauseRuntime, telemetry.CauseSystemd, telemetry.CauseKubelet, telemetry.CauseUnknown} {
		if found[cause] == 0 {
			t.Errorf("%s is never the cause", cause)
		}
	}
}

// TestDrift follows an external write to a cpuset and a weight until both are repaired.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	w.Notice(path, began)
	w.read(t, cpuset.Range(0, 7), 100)
	drifted, _ := w.Open(began.Add(time.Second), nothing)
	if len(drifted) != 1 || drifted[0].Path != path {
		t.Fatalf("drifted: %v; want the container", drifted)
	}
	if d := cmp.Diff(map[cgroup.Path][]string{path: {cgroup.FileCPUs, cgroup.FileWeight}}, w.Unrepaired()); d != "" {
		t.Errorf("unrepaired (-want +got):\n%s", d)
	}
	if !w.Unconfirmed()[path] || !w.ChangedWeights()[path] {
		t.Error("the record counts before it is read, or the weight has not changed")
	}
	w.read(t, own, 100)
	w.Settle(targets, began.Add(2*time.Second))
	if d := cmp.Diff(map[cgroup.Path][]string{path: {cgroup.FileWeight}}, w.Unrepaired()); d != "" {
		t.Errorf("unrepaired after the repair of the cpuset (-want +got):\n%s", d)
	}
	if got := w.Figures().Drifts; len(got) > 0 {
		t.Errorf("%v are counted before the record is read, so without a cause", got)
	}
	w.Confirm(record(t, "4-5"))
	w.read(t, own, 59)
	w.Settle(targets, began.Add(3*time.Second))
	if got := w.Unrepaired(); len(got)+len(w.Unconfirmed())+len(w.ChangedWeights()) > 0 {
		t.Errorf("unrepaired at the end: %v", got)
	}
	want := map[telemetry.Drift]uint64{
		{Cause: telemetry.CauseUnknown, Property: cgroup.FileCPUs}: 1, {Cause: telemetry.CauseUnknown, Property: cgroup.FileWeight}: 1}
	f := w.Figures()
	if d := cmp.Diff(want, f.Drifts); d != "" {
		t.Errorf("total (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, f.Repaired); d != "" {
		t.Errorf("repaired (-want +got):\n%s", d)
	}
	if f.Repairs.Count != 2 || f.Repairs.Sum != 5 {
		t.Errorf("%d repairs in %v s; want 2 in 5 s", f.Repairs.Count, f.Repairs.Sum)
	}
	var kinds []history.Kind
	for _, e := range w.events {
		kinds = append(kinds, e.Kind)
	}
	if d := cmp.Diff([]history.Kind{history.Drift, history.Drift, history.Repaired, history.Repaired}, kinds); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// TestNoDrift checks that ignored cgroups, and values that were no targets, open no drift.
func TestNoDrift(t *testing.T) {
	for name, c := range map[string]struct {
		cpus    cpuset.Set
		weight  uint64
		ignored func(cgroup.Path) bool
	}{
		"ignored":   {cpuset.Range(0, 7), 100, func(p cgroup.Path) bool { return p == path }},
		"unchanged": {own, 59, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.read(t, c.cpus, c.weight)
			if drifted, hosts := w.Open(began, c.ignored); len(drifted)+len(hosts)+len(w.Unrepaired()) > 0 {
				t.Errorf("drifted: %v, %v; want none", drifted, hosts)
			}
		})
	}
}

// TestGone checks that the drift of a removed cgroup ends, and counts as not repaired.
func TestGone(t *testing.T) {
	w := newWorld(t)
	w.read(t, cpuset.Range(0, 7), 59)
	w.Open(began, nothing)
	w.kernel.gone = true
	w.Cache.Invalidate(path)
	w.Cache.Refresh(targets, w.Objects)
	w.Settle(targets, began)
	f := w.Figures()
	if len(w.Unrepaired()) > 0 || len(f.Drifts) != 1 || len(f.Repaired) > 0 {
		t.Errorf("unrepaired %v, total %v, repaired %v; want one drift in total alone", w.Unrepaired(), f.Drifts, f.Repaired)
	}
}
