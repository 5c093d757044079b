package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/defrag"
)

// widePool and wideCarved allow exclusive CPUs 2-7: one core on node 0 and two on node 1.
var (
	widePool   = strings.NewReplacer("cpus: 0-1", `cpus: "0"`, "cpus: 2-3", `cpus: "1"`, "cpus: 4-7", "cpus: 2-7").Replace(nodefixture.PoolsYAML)
	wideCarved = strings.Replace(nodefixture.CarvedYAML, "floor: 2", "floor: 1", 1)
)

// fragmented is a node with a container of two CPUs on different cores, after most other
// containers have ended.
type fragmented struct {
	*running
	split     string // id of the container
	exclusive map[string]bool
}

func fragment(t *testing.T, yaml string) *fragmented {
	t.Helper()
	n := newNode(t)
	n.YAML = yaml
	f := &fragmented{running: n.start(), exclusive: make(map[string]bool)}
	n.RunContainer(n.RunPod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	pods := make(map[int]string) // by CPU
	singles := 6
	if yaml == wideCarved {
		singles = 5 // and one CPU for the shared pool
	}
	for i := range singles {
		pod := n.RunPod(fmt.Sprintf("single-%d", i), "default", "guaranteed", 1, nil)
		id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(1))
		n.Eventually("single placed", func() bool { return n.State(id).Effective.Len() == 1 && n.State(id).Quota == -1 })
		pods[n.State(id).Effective.First()] = pod
		f.exclusive[n.Runtime.Cgroup(id)] = true
	}
	stop := func(cpu int) {
		if pod := pods[cpu]; pod != "" {
			if err := n.Runtime.StopPod(pod); err != nil {
				t.Fatal(err)
			}
			delete(pods, cpu)
		}
	}
	stop(2)
	stop(4)
	f.split = n.RunContainer(n.RunPod("split", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("split placed", func() bool { return n.State(f.split).Effective.Len() == 2 && n.State(f.split).Quota == -1 })
	f.exclusive[n.Runtime.Cgroup(f.split)] = true
	has := n.State(f.split).Effective
	for cpu := range has.All() {
		stop(cpu ^ 1)
	}
	f.quiet()
	// A daemon that has just recorded a value waits before the next record. A new daemon does
	// not.
	f.stop()
	f.running = n.start()
	f.quiet()
	return f
}

// report returns the output of plan --defrag.
func (f *fragmented) report() defrag.Report {
	f.T.Helper()
	o, h := f.options(), f.Host()
	owners, unread, err := preview.Exclusive(f.T.Context(), &h, o.Config, o.Topology, o.Log)
	if err != nil || len(unread) > 0 {
		f.T.Fatal(err, unread)
	}
	return defrag.Analyse(owners)
}

// requestMove requests a move of a running loop.
func requestMove(ctx context.Context, l *Loop, m control.Move) (control.Outcome, error) {
	return moves.Request(func(m *moves.Move) { l.box.Post(moveRequest{m}) })(ctx, m)
}

// theMove returns the only move that is proposed.
func (f *fragmented) theMove() control.Move {
	f.T.Helper()
	r := f.report()
	if len(r.Moves) != 1 || r.Moves[0].Pod != "default/split" {
		f.T.Fatalf("moves = %+v; want one, of default/split; owners are %+v", r.Moves, r.Owners)
	}
	m := r.Moves[0]
	return control.Move{PodUID: m.PodUID, Container: m.Container, From: m.From, To: m.To}
}

// checkMoves checks the invariants on the kernel's values.
func (f *fragmented) checkMoves() {
	f.T.Helper()
	occupants := f.Occupants(cpuset.Set{})
	for i := range occupants {
		occupants[i].Exclusive = f.exclusive[occupants[i].Name]
	}
	for _, err := range invariants.CheckOccupants(occupants) {
		f.T.Errorf("%v\n%s", err, f.Dump())
	}
}

func TestMove(t *testing.T) {
	for name, yaml := range map[string]string{"fixed": widePool, "carved": wideCarved} {
		t.Run(name, func(t *testing.T) {
			f := fragment(t, yaml)
			m := f.theMove()
			f.Tree.Intercept(func(testnode.CgroupWrite) error { f.checkMoves(); return nil })
			outcome, err := requestMove(t.Context(), f.loop, m)
			if outcome != control.Done || err != nil {
				t.Fatalf("move = %s, %v; want done\n%s", outcome, err, f.Logs)
			}
			if got := f.State(f.split); !got.Effective.Equal(m.To) || !got.CPUs.Equal(m.To) {
				t.Errorf("it is said to be done, and the container runs on %s; want %s", got.Effective, m.To)
			}
			f.checkMoves()
			if r := f.report(); len(r.Moves) != 0 {
				t.Errorf("there is more to move: %+v; want none", r.Moves)
			}
			outcome, err = requestMove(t.Context(), f.loop, m)
			if want := fmt.Sprintf("has CPUs %s and not %s", m.To, m.From); outcome != control.Refused || !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("the same move again = %s, %v; want refused: %s", outcome, err, want)
			}
			// The runtime has recorded the move, and it survives a restart.
			f.quiet()
			f.stop()
			before := len(f.Tree.Writes())
			f.start().quiet()
			if writes := f.Tree.Writes()[before:]; len(writes) != 0 {
				t.Errorf("a restart after the move wrote %v; want none", writes)
			}
		})
	}
}

// TestNobodyMovesUnasked checks that fragmentation alone leads to no write.
func TestNobodyMovesUnasked(t *testing.T) {
	f := fragment(t, widePool)
	f.theMove()
	before := len(f.Tree.Writes())
	for range 3 {
		f.quiet()
	}
	if writes := f.Tree.Writes()[before:]; len(writes) != 0 {
		t.Errorf("wrote %v; want none", writes)
	}
}

func TestMoveIsCheckedAgain(t *testing.T) {
	f := fragment(t, widePool)
	good := f.theMove()
	for _, c := range []struct {
		change func(*control.Move)
		want   string
	}{
		{func(m *control.Move) { m.PodUID = "nobody" }, "has no exclusive CPUs"},
		{func(m *control.Move) { m.Container = "" }, "has no exclusive CPUs"},
		{func(m *control.Move) { m.From = cpuset.Range(0, 1) }, "something has changed"},
		{func(m *control.Move) { m.To = cpuset.Range(2, 4) }, "cannot be moved to 3"},
		{func(m *control.Move) { m.To = cpuset.Range(0, 1) }, "not in the guaranteed pool"},
	} {
		m := good
		c.change(&m)
		before := len(f.Tree.Writes())
		outcome, err := requestMove(t.Context(), f.loop, m)
		if outcome != control.Refused || !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%+v = %s, %v; want refused: %s", m, outcome, err, c.want)
		}
		if writes := f.Tree.Writes()[before:]; len(writes) != 0 {
			t.Errorf("%+v was refused, and wrote %v; want none", m, writes)
		}
	}
	if err := f.Runtime.StopContainer(f.split); err != nil {
		t.Fatal(err)
	}
	f.view("end of the container known", func(v *telemetry.View) bool {
		return !slices.ContainsFunc(v.Containers, func(c telemetry.Container) bool { return c.ID == f.split })
	})
	if outcome, err := requestMove(t.Context(), f.loop, good); outcome != control.Refused || !strings.Contains(fmt.Sprint(err), "must stay where it is") {
		t.Errorf("move of a container that has exited = %s, %v; want refused", outcome, err)
	}
}

// TestEndDuringMove checks that a move has an answer although its container ends.
func TestEndDuringMove(t *testing.T) {
	f := fragment(t, widePool)
	m := f.theMove()
	defer f.Runtime.Hang("UpdateContainerResources")()
	f.Tree.Intercept(func(testnode.CgroupWrite) error { go func() { _ = f.Runtime.StopContainer(f.split) }(); return nil })
	if outcome, err := requestMove(t.Context(), f.loop, m); outcome != control.Unverified || !strings.Contains(fmt.Sprint(err), "ended") {
		t.Errorf("move of a container that ends = %s, %v; want unverified, since it has ended", outcome, err)
	}
}

// TestMoveThatTakesLong checks that the answer to a slow move is unverified, and that the
// daemon completes it.
func TestMoveThatTakesLong(t *testing.T) {
	f := fragment(t, widePool)
	m := f.theMove()
	release := f.Runtime.Hang("UpdateContainerResources")
	defer release()
	ctx, giveUp := context.WithCancel(t.Context())
	f.Tree.Intercept(func(testnode.CgroupWrite) error { giveUp(); return nil })
	if outcome, err := requestMove(ctx, f.loop, m); outcome != control.Unverified || err == nil {
		t.Errorf("move = %s, %v; want unverified", outcome, err)
	}
	f.AwaitCPUs(f.split, m.To.String())
	if outcome, err := requestMove(t.Context(), f.loop, control.Move{PodUID: m.PodUID, Container: m.Container, From: m.To, To: m.From}); outcome != control.Refused {
		t.Errorf("move of a container that is being moved = %s, %v; want refused", outcome, err)
	}
	release()
	f.Eventually("moved", func() bool { return len(f.Logged("moved")) == 1 })
	f.quiet()
	f.checkMoves()
}

// TestDeathDuringMove kills the daemon after each write of a move. The invariants hold at every
// moment, and the next daemon reaches the desired state.
func TestDeathDuringMove(t *testing.T) {
	total := deathDuringMove(t, widePool, -1)
	if total < 1 {
		t.Fatalf("the move needs %d writes", total)
	}
	carved := deathDuringMove(t, wideCarved, -1)
	if carved <= total {
		t.Errorf("a move to CPUs of the shared pool needs %d writes; want more than %d, since it has to give way", carved, total)
	}
	for after := range carved {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			deathDuringMove(t, wideCarved, after)
		})
	}
}

// deathDuringMove returns the number of files that a daemon writes for a move if it is not
// killed.
func deathDuringMove(t *testing.T, yaml string, after int) int {
	f := fragment(t, yaml)
	m := f.theMove()
	writes := 0
	ctx, die := context.WithCancel(t.Context())
	defer die()
	f.Tree.Intercept(func(testnode.CgroupWrite) error {
		f.checkMoves()
		if writes == after {
			die()
			return errors.New("the daemon is dead")
		}
		writes++
		return nil
	})
	outcome, err := requestMove(ctx, f.loop, m)
	switch {
	case outcome == control.Done && f.State(f.split).Effective.Equal(m.To):
		// The daemon may be killed after its answer, while other containers get CPUs back, or
		// not at all. An update over CRI that ends after the next write of its cgroup costs one
		// more write, which this move may not need.
	case outcome == control.Unverified && after >= 0:
	default:
		t.Errorf("move = %s, %v; the container is on %s", outcome, err, f.State(f.split).Effective)
	}
	f.stop()
	f.Tree.Intercept(nil)
	f.running = f.start()
	f.quiet()
	f.checkMoves()
	if on := f.State(f.split).Effective; !on.Equal(m.From) && !on.Equal(m.To) {
		t.Errorf("the container is on %s; want %s or %s", on, m.From, m.To)
	}
	return writes
}

// TestUnitMoves checks that systemd gets a unit's new CPUs, whether the unit runs or not.
func TestUnitMoves(t *testing.T) {
	n := newNode(t)
	n.YAML = widePool + "units:\n  du.service: {cpus: 2}\n"
	n.Units.Install("du.service", cpuset.Set{})
	r := n.start()
	n.Eventually("unit has CPUs", func() bool { return n.UnitProperty("du.service") == "2-3" })
	r.quiet()
	move := func(from, to cpuset.Set) {
		t.Helper()
		if outcome, err := requestMove(t.Context(), r.loop, control.Move{Container: "du.service", From: from, To: to}); outcome != control.Done {
			t.Fatalf("move from %s to %s = %s, %v; want done", from, to, outcome, err)
		}
		if got := n.UnitProperty("du.service"); got != to.String() {
			t.Errorf("systemd has recorded %s; want %s", got, to)
		}
	}
	move(cpuset.Range(2, 3), cpuset.Range(6, 7))
	n.StartUnit("du.service")
	n.AwaitUnitCPUs("du.service", "6-7")
	r.quiet()
	move(cpuset.Range(6, 7), cpuset.Range(4, 5))
	n.AwaitUnitCPUs("du.service", "4-5")
}

// TestControlSocket requests a move as the command line does.
func TestControlSocket(t *testing.T) {
	f := fragment(t, widePool)
	m := f.theMove()
	o := f.options()
	o.Config.RunDir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	var server sync.WaitGroup
	server.Go(func() { serveControl(ctx, newControl(f.loop, o), o) })
	defer server.Wait()
	defer cancel()
	client := control.NewClient(control.Socket(o.Config.RunDir))
	var results []control.Result
	f.Eventually("answer", func() bool {
		var err error
		results, err = client.Move(ctx, []control.Move{m, m})
		return !errors.Is(err, control.ErrNoDaemon)
	})
	if len(results) != 2 || results[0].Outcome != control.Done || results[1].Outcome != control.Refused {
		t.Errorf("results = %+v; want the first done and the second refused", results)
	}
	f.AwaitCPUs(f.split, m.To.String())
	f.checkMoves()
}

// TestMoveWithoutRoom requests the only CPU of the shared pool. Its containers would have to
// move to the owner's CPU, and there is no third CPU.
func TestMoveWithoutRoom(t *testing.T) {
	n := newNode(t)
	n.YAML = wideCarved
	r := n.start()
	shared := n.RunContainer(n.RunPod("shared", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	var owner string
	for i := range 5 {
		owner = n.RunContainer(n.RunPod(fmt.Sprintf("single-%d", i), "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
		n.Eventually("single placed", func() bool { return n.State(owner).Effective.Len() == 1 && n.State(owner).Quota == -1 })
	}
	r.quiet()
	m := control.Move{PodUID: "single-4", Container: "app", From: n.State(owner).Effective, To: n.State(shared).Effective}
	if m.To.Len() != 1 {
		t.Fatalf("the shared pool has %s; want one CPU", m.To)
	}
	ctx, cancel := context.WithTimeout(t.Context(), nodefixture.Timeout)
	defer cancel()
	outcome, err := requestMove(ctx, r.loop, m)
	if outcome != control.Refused || err == nil || !strings.Contains(err.Error(), "cannot be carried out") {
		t.Errorf("move = %v, %v; want it refused, since it cannot be carried out", outcome, err)
	}
	r.quiet()
	if got := n.State(owner).Effective; !got.Equal(m.From) {
		t.Errorf("the owner is on %s; want %s", got, m.From)
	}
}
