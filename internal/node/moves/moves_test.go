package moves_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const slice = "kubepods-podu.slice"

// world holds the container c of pod u, which has CPUs 4-5, and a move of it from 2-3.
type world struct {
	*moves.Moves
	moves.Sources
	log      bytes.Buffer
	state    cgroup.State // in the kernel
	last     planning.Pass
	assigned []pools.Assignment
	now      time.Time
	move     *moves.Move
}

func newWorld(t *testing.T) *world {
	t.Helper()
	now := time.Unix(1000, 0)
	w, m := &world{}, inventory.New(cgroup.DriverSystemd)
	w.Sources = moves.Sources{
		Log: slog.New(slog.NewTextHandler(&w.log, nil)), History: view.NewHistoryLog(func() time.Time { return now }), Settings: new(desired.Settings),
		Objects: m.Objects(), Backoffs: retry.New(), Journal: undo.Document{}.Journal(),
	}
	w.Cache = kernelstate.New(w, w.Log)
	w.Moves = moves.New(w.Sources)
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Namespace: "default", Name: "web", CgroupParent: slice}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{
		ID: "c", PodID: "p", Name: "app", State: cri.Running, CgroupsPath: slice + ":cri-containerd:c", Recorded: cri.Resources{CPUs: "4-5"},
	}})
	asked := control.Move{PodUID: "u", Container: "app", From: cpuset.Range(2, 3), To: cpuset.Range(4, 5)}
	w.move = moves.Ask(asked, nil)
	target := cgroup.Target{Path: w.Objects.Container("c").Path, Container: "c", CPUs: asked.To}
	w.last.Targets, w.assigned, w.now = []cgroup.Target{target}, []pools.Assignment{{Key: w.move.Key(), CPUs: asked.To}}, now
	w.state = cgroup.State{Path: target.Path, CPUs: asked.To, Effective: asked.To, HasCPUSet: true, Populated: true}
	w.read(t)
	return w
}

func (w *world) read(t *testing.T) {
	t.Helper()
	if gone, errs := w.Cache.Read(w.last.Targets, w.Objects); len(gone)+len(errs) > 0 {
		t.Fatal(gone, errs)
	}
}

// Read is the kernel's part of the cache.
func (w *world) Read(cgroup.Path) (cgroup.State, error) { return w.state, nil }

func (*world) Check(before cgroup.State) (cgroup.State, error) { return before, nil }

func (*world) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }

func (*world) Rest() {}

// outcome returns the answer, "" without one.
func (w *world) outcome() (control.Outcome, error) {
	select {
	case a := <-w.move.Reply():
		return a.Value, a.Err
	default:
		return "", nil
	}
}

// TestAnswer checks which result of a pass completes a move, and which makes it impossible.
func TestAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, w *world)
		want   control.Outcome // "": no answer
		reason string          // of an answer, or against the move
	}{
		"complete":               {func(*testing.T, *world) {}, control.Done, ""},
		"no assignment":          {func(_ *testing.T, w *world) { w.assigned = nil }, control.Unverified, "the owner has ended"},
		"no target":              {func(_ *testing.T, w *world) { w.last.Targets = nil }, control.Unverified, "the owner has ended"},
		"not read since a write": {func(_ *testing.T, w *world) { w.Cache.Invalidate(w.state.Path) }, "", "is being written"},
		"a write in progress": {func(_ *testing.T, w *world) {
			w.Cache.NoteSubmitted(cgroup.Write{Path: w.state.Path, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "4-5"})
		}, "", "is being written"},
		"the journal not on disk": {func(_ *testing.T, w *world) {
			w.Journal.Originals.Note(undo.Original{Path: w.state.Path, File: cgroup.FileCPUs})
		}, "", "the journal is being written"},
		"another record": {func(t *testing.T, w *world) {
			t.Helper()
			w.Cache.SetRecord(w.state.Path, cgroup.Current{Recorded: cpuset.Range(2, 3), RecordedKnown: true})
			w.read(t)
		}, "", "the runtime has recorded CPUs 2-3"},
		"other CPUs in the kernel": {func(t *testing.T, w *world) {
			t.Helper()
			w.state.CPUs, w.state.Effective = cpuset.Range(2, 3), cpuset.Range(2, 3)
			w.Cache.Invalidate(w.state.Path)
			w.read(t)
		}, "", "2-3"},
		"a deferred write": {func(_ *testing.T, w *world) {
			w.last.Deferred = []cgroup.Deferred{{Path: w.state.Path, Property: cgroup.FileCPUs, Reason: "others are on them"}}
		}, "", "waits: others are on them"},
		"a deferred write of another cgroup": {func(_ *testing.T, w *world) {
			w.last.Deferred = []cgroup.Deferred{{Path: "other", Property: cgroup.FileCPUs}}
		}, control.Done, ""},
		"unreadable": {func(_ *testing.T, w *world) {
			w.last.Unreadable = map[cgroup.Path]error{w.state.Path: errors.New("input/output error")}
		}, "", "input/output error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !w.Take(w.move, nil) || w.IsEmpty() {
				t.Fatal("the move is not open")
			}
			c.change(t, w)
			settled := w.Settled(w.move.Key(), &w.last, w.now)
			w.Answer(&w.last, w.assigned, w.now)
			got, err := w.outcome()
			if got != c.want || w.IsEmpty() != (c.want != "") {
				t.Errorf("outcome %q, %v, answered: %t; want %q", got, err, w.IsEmpty(), c.want)
			}
			if c.want == "" {
				err = settled
			}
			if (err == nil) != (c.reason == "") || !strings.Contains(fmt.Sprint(err), c.reason) && c.reason != "" {
				t.Errorf("reason %v; want %q", err, c.reason)
			}
		})
	}
}

// TestTake checks the decision about a move. A move that a write in progress prevents is tried once
// more, and refused then.
func TestTake(t *testing.T) {
	w := newWorld(t)
	w.Cache.Invalidate(w.state.Path)
	busy := fmt.Errorf("is not settled: %w", w.Settled(w.move.Key(), &w.last, w.now))
	if w.Take(w.move, busy) || w.IsEmpty() {
		t.Error("a blocked move is open, or refused")
	}
	if again := w.TakeBlocked(); len(again) != 1 || again[0] != w.move || !w.IsEmpty() || len(w.TakeBlocked()) > 0 {
		t.Errorf("blocked moves %v; want one, once", again)
	}
	if got, err := w.outcome(); got != "" {
		t.Errorf("a blocked move is answered: %s, %v; want an empty string", got, err)
	}
	if w.Take(w.move, busy) || !w.IsEmpty() {
		t.Error("a move is blocked twice")
	}
	if got, err := w.outcome(); got != control.Refused || !errors.Is(err, busy) {
		t.Errorf("outcome %s, %v; want that it is refused", got, err)
	}
}

// TestHistory checks that the history and the log contain a move and the reason against it.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	w.Take(w.move, nil)
	unit := moves.Ask(control.Move{Container: "du.service", From: cpuset.Of(2), To: cpuset.Of(4)}, nil)
	w.Take(unit, errors.New("does not fit"))
	events := w.History.Snapshot().Events
	if len(events) != 3 { // the first is the start of the daemon
		t.Fatalf("events %+v; want three", events)
	}
	if e := events[1]; e.Kind != history.Move || e.Pod != "default/web" || e.Container != "app" || e.Before != "2-3" || e.Value != "4-5" || e.Error != "" {
		t.Errorf("event of a move: %+v", e)
	}
	if e := events[2]; e.Unit != "du.service" || e.Container != "" || e.Pod != "" || e.Error != "does not fit" {
		t.Errorf("event of a refused move: %+v", e)
	}
	if log := w.log.String(); !strings.Contains(log, "msg=move ") || !strings.Contains(log, "msg=\"move refused\"") {
		t.Errorf("log %s", log)
	}
}

// TestCheckClaims checks that a container with the CPUs of a ResourceClaim is not moved, with a reason.
func TestCheckClaims(t *testing.T) {
	m := moves.Ask(control.Move{PodUID: "u", Container: "app", From: cpuset.Of(2), To: cpuset.Of(3)}, nil)
	plan := pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: []pools.Placement{{Name: "app", Claims: []string{"uid"}}}}}}
	machine := allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 1}.Topology())
	if err := m.Check(&plan, defrag.Input{Machine: machine}); err == nil || !strings.Contains(err.Error(), "ResourceClaim") {
		t.Errorf("Check = %v; want the reason", err)
	}
	plan.Pods[0].Containers[0].Claims = nil
	if err := m.Check(&plan, defrag.Input{Machine: machine}); err == nil || !strings.Contains(err.Error(), "has no exclusive CPUs") {
		t.Errorf("Check without claims = %v; want the reason of package defrag", err)
	}
}
