package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/control"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// slowUnits is a systemd that takes its time to revert units.
type slowUnits struct {
	hostenv.UnitManager
	asked, release chan struct{}
}

func newSlowUnits(u hostenv.UnitManager) *slowUnits {
	return &slowUnits{UnitManager: u, asked: make(chan struct{}, 100), release: make(chan struct{})}
}

func (s *slowUnits) Revert(ctx context.Context, unit string, originals []cgroup.Property, nodes cpuset.Set) error {
	s.asked <- struct{}{}
	<-s.release
	return s.UnitManager.Revert(ctx, unit, originals, nodes)
}

// TestNobodyGetsTheCPUsOfALeavingUnit before it has left them, whatever pool they
// are in by then. Those who come meanwhile get the rest of their pool.
func TestNobodyGetsTheCPUsOfALeavingUnit(t *testing.T) {
	pools := func(management, shared, guaranteed string) string {
		return strings.NewReplacer("cpus: 0-1", `cpus: "`+management+`"`, "cpus: 2-3", `cpus: "`+shared+`"`, "cpus: 4-7", guaranteed).Replace(poolsYAML)
	}
	everywhere := strings.Replace(carvedYAML, "cpus: 0-1", "cpus: all", 1)
	for name, c := range map[string]struct {
		before, after string
		meanwhile     [2]string // where management and shared containers that come get to; empty for nowhere
		then          [2]string
	}{
		"to the shared pool":         {poolsYAML, pools("0-1", "2-5", "cpus: 6-7"), [2]string{"0-1", "2-3"}, [2]string{"0-1", "2-5"}},
		"are the shared pool":        {poolsYAML, pools("0-3", "4-5", "cpus: 6-7"), [2]string{"0-3", ""}, [2]string{"0-3", "4-5"}},
		"to a partition":             {poolsYAML, pools("0-1,4-5", "2-3", "cpus: 6-7"), [2]string{"0-1", "2-3"}, [2]string{"0-1,4-5", "2-3"}},
		"were carved":                {carvedYAML, carvedYAML, [2]string{"0-1", ""}, [2]string{"0-1", "2-7"}},
		"were carved out of any CPU": {everywhere, everywhere, [2]string{"", ""}, [2]string{"0-7", "2-7"}},
	} {
		t.Run(name, func(t *testing.T) { leave(t, c.before, c.after, c.meanwhile, c.then) })
	}
}

func leave(t *testing.T, before, after string, meanwhile, then [2]string) {
	n := newNode(t)
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	n.yaml = before + "units: {du.service: {cpus: 2}}\n"
	h := n.host()
	slow := newSlowUnits(h.Units)
	h.Units = slow
	release := sync.OnceFunc(func() { close(slow.release) })
	defer release()
	r := n.startOn(h)
	both := func(uid string) [2]string {
		return [2]string{
			n.container(n.pod(uid+"m", "kube-system", "burstable", 0, management(nil)), "app", cri.Resources{Shares: 102}),
			n.container(n.pod(uid+"s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}),
		}
	}
	first := both("first")
	r.quiet()
	held := n.stateAt("system.slice/du.service").CPUs
	if held.Len() != 2 {
		t.Fatalf("the unit is on %s; want two CPUs of its own", held)
	}
	n.tree.Intercept(func(w testnode.CgroupWrite) error {
		cpus, err := cpuset.Parse(w.Value)
		runs := n.stateAt(cgroup.Path(filepath.Dir(w.Name))).Effective
		if filepath.Base(w.Name) == cgroup.FileCPUs && (err != nil || cpus.Difference(runs).Overlaps(held)) && n.stateAt("system.slice/du.service").CPUs.Equal(held) {
			t.Errorf("%s gets %s; the unit is still on %s", w.Name, w.Value, held)
		}
		return nil
	})
	n.yaml = after
	r.loop.reload()
	<-slow.asked
	second := both("second")
	for i, want := range meanwhile {
		if want == "" {
			continue
		}
		n.runsOn(second[i], want)
	}
	if got := n.stateAt("system.slice/du.service").CPUs; !got.Equal(held) {
		t.Fatalf("the unit has left for %s: the test shows nothing", got)
	}
	if faults := n.logged("not as planned"); len(faults) > 0 {
		t.Errorf("to wait for systemd is no fault: %v", faults)
	}
	release()
	for i, want := range then {
		n.runsOn(first[i], want)
		n.runsOn(second[i], want)
	}
	r.quiet()
}

// stateAt is what the kernel says of a cgroup by its path.
func (n *node) stateAt(p cgroup.Path) cgroup.State {
	st, err := cgroup.New(n.tree).Read(p)
	if err != nil {
		return cgroup.State{}
	}
	return st
}

// deafUnits says that units have their properties back, which the kernel has not heard
// of.
type deafUnits struct {
	hostenv.UnitManager
	tree *testnode.Cgroups
}

func (d deafUnits) Revert(ctx context.Context, unit string, originals []cgroup.Property, nodes cpuset.Set) error {
	name := "system.slice/" + unit + "/" + cgroup.FileCPUs
	before, err := d.tree.ReadFile(name, 100)
	if err != nil {
		return err
	}
	if err := d.UnitManager.Revert(ctx, unit, originals, nodes); err != nil {
		return err
	}
	return d.tree.Write(name, string(before))
}

// TestRevertIsVerified: as long as the kernel has a unit on CPUs of its own, nobody
// else gets these, and its original stays.
func TestRevertIsVerified(t *testing.T) {
	n := newNode(t)
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	n.yaml = poolsYAML + "units: {du.service: {cpus: 2}}\n"
	h := n.host()
	h.Units = deafUnits{h.Units, n.tree}
	r := n.startOn(h)
	n.unitRunsOn("du.service", "4-5")
	r.quiet()
	n.yaml = poolsYAML
	r.loop.reload()
	n.eventually("error", func() bool { return len(n.logged("unit has not got its CPUs back")) == 1 })
	late := n.container(n.pod("e", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(late, "6-7")
	r.stop()
	if got := n.journal(); len(got.Originals) == 0 || !slices.ContainsFunc(got.Originals, func(o undo.Original) bool { return o.Unit == "du.service" }) {
		t.Errorf("originals %v; want that of du.service", got.Originals)
	}
	r = n.start()
	n.unitRunsOn("du.service", "0-7")
	r.quiet()
}

// TestMoveWhileAUnitLeaves: a move gives nobody the CPUs of a unit that has not left
// them yet, neither who is moved nor those who come after it; whether it is asked for
// while systemd is busy with the unit, or at once with the reload.
func TestMoveWhileAUnitLeaves(t *testing.T) {
	n := newNode(t)
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	n.yaml = poolsYAML + "units: {du.service: {cpus: 2}}\n"
	h := n.host()
	slow := newSlowUnits(h.Units)
	h.Units = slow
	release := sync.OnceFunc(func() { close(slow.release) })
	defer release()
	r := n.startOn(h)
	n.unitRunsOn("du.service", "4-5")
	single := n.container(n.pod("a", "default", "guaranteed", 1, nil), "app", whole(1))
	n.eventually("placed", func() bool { return n.state(single).Effective.Len() == 1 && n.state(single).Quota == -1 })
	r.quiet()
	has := n.state(single).Effective
	free := cpuset.Range(6, 7).Difference(has)
	move := func(to cpuset.Set) control.Move {
		return control.Move{PodUID: "a", Container: "app", From: has, To: to}
	}

	r.stop()
	n.yaml = poolsYAML
	l := r.loop
	l.handle(configLoaded{config: n.options().Config})
	if _, err := l.moved(&moveRequest{Move: move(cpuset.Of(4))}, time.Now()); err == nil {
		t.Error("a container may be moved to the CPUs of a unit that is there")
	}
	answer := make(chan moveAnswer, 1)
	moveRequest{Move: move(free), answer: answer}.apply(l)
	if got := desired.Assigned(l.assignments, inventory.UnitKey("du.service")).String(); got != "4-5" || len(answer) > 0 {
		t.Errorf("the unit that is to leave has CPUs %q on record after a move; want 4-5", got)
	}

	r = n.startOn(h)
	<-slow.asked
	if outcome, err := r.loop.ask(t.Context(), move(free)); outcome != control.Done {
		t.Fatalf("move = %s, %v", outcome, err)
	}
	late := n.container(n.pod("b", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(late, "2-3")
	release()
	n.runsOn(late, "4-5")
	r.quiet()
}

// TestNobodyGivesWayForALeavingUnit: where the shared pool is to have nothing but the
// CPUs of a unit that leaves, it waits for these, and takes none from an owner.
func TestNobodyGivesWayForALeavingUnit(t *testing.T) {
	n := newNode(t)
	n.units.Install("du.service", cpuset.Set{})
	n.start2("du.service")
	n.yaml = carvedYAML + "units: {du.service: {cpus: 2}}\n"
	h := n.host()
	slow := newSlowUnits(h.Units)
	h.Units = slow
	release := sync.OnceFunc(func() { close(slow.release) })
	defer release()
	r := n.startOn(h)
	excl := n.container(n.pod("a", "default", "guaranteed", 2, nil), "app", whole(2))
	n.eventually("placed", func() bool { return n.state(excl).Effective.Len() == 2 && n.state(excl).Quota == -1 })
	r.quiet()
	has, unit := n.state(excl).Effective, n.stateAt("system.slice/du.service").CPUs
	rest := cpuset.Range(2, 7).Difference(has.Union(unit))
	before := len(n.tree.Writes())
	n.yaml = strings.NewReplacer("cpus: 0-1", `cpus: "0-1,`+rest.String()+`"`, "cpus: 2-7", `cpus: "`+has.Union(unit).String()+`"`).Replace(carvedYAML)
	r.loop.reload()
	<-slow.asked
	late := n.container(n.pod("m", "kube-system", "burstable", 0, management(nil)), "app", cri.Resources{Shares: 102})
	n.runsOn(late, cpuset.Range(0, 1).Union(rest).String())
	release()
	r.quiet()
	for _, w := range n.tree.Writes()[before:] {
		if filepath.Dir(w.Name) == n.runtime.Cgroup(excl) {
			t.Errorf("the container was disturbed: %v", w)
		}
	}
}
