package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/moves"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// slowUnits is a systemd whose reverts take time.
type slowUnits struct {
	hostenv.Units
	asked, release chan struct{}
	finish         func() // lets the reverts end
}

// slowUnitNode returns a node with a configuration in which du.service owns two CPUs.
func slowUnitNode(t *testing.T, yaml string) (*node, hostenv.Host, *slowUnits) {
	t.Helper()
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	n.YAML = yaml + "units: {du.service: {cpus: 2}}\n"
	h := n.Host()
	slow := &slowUnits{Units: h.Units, asked: make(chan struct{}, 100), release: make(chan struct{})}
	slow.finish = sync.OnceFunc(func() { close(slow.release) })
	h.Units = slow
	return n, h, slow
}

func (s *slowUnits) Revert(ctx context.Context, unit string, originals []systemd.Property, nodes cpuset.Set) error {
	s.asked <- struct{}{}
	<-s.release
	return s.Units.Revert(ctx, unit, originals, nodes)
}

// TestNobodyGetsTheCPUsOfALeavingUnit checks that CPUs of a unit are not allocated before the
// unit has left them, whatever pool they are in by then. New containers get the rest of their
// pool.
func TestNobodyGetsTheCPUsOfALeavingUnit(t *testing.T) {
	pools := func(management, shared, guaranteed string) string {
		return strings.NewReplacer("cpus: 0-1", `cpus: "`+management+`"`, "cpus: 2-3", `cpus: "`+shared+`"`, "cpus: 4-7", guaranteed).Replace(nodefixture.PoolsYAML)
	}
	everywhere := strings.Replace(nodefixture.CarvedYAML, "cpus: 0-1", "cpus: all", 1)
	for name, c := range map[string]struct {
		before, after string
		meanwhile     [2]string // CPUs of new management and shared containers; empty without a container
		then          [2]string
	}{
		"to the shared pool":         {nodefixture.PoolsYAML, pools("0-1", "2-5", "cpus: 6-7"), [2]string{"0-1", "2-3"}, [2]string{"0-1", "2-5"}},
		"are the shared pool":        {nodefixture.PoolsYAML, pools("0-3", "4-5", "cpus: 6-7"), [2]string{"0-3", ""}, [2]string{"0-3", "4-5"}},
		"to a partition":             {nodefixture.PoolsYAML, pools("0-1,4-5", "2-3", "cpus: 6-7"), [2]string{"0-1", "2-3"}, [2]string{"0-1,4-5", "2-3"}},
		"were carved":                {nodefixture.CarvedYAML, nodefixture.CarvedYAML, [2]string{"0-1", ""}, [2]string{"0-1", "2-7"}},
		"were carved out of any CPU": {everywhere, everywhere, [2]string{"", ""}, [2]string{"0-7", "2-7"}},
	} {
		t.Run(name, func(t *testing.T) { leave(t, c.before, c.after, c.meanwhile, c.then) })
	}
}

func leave(t *testing.T, before, after string, meanwhile, then [2]string) {
	n, h, slow := slowUnitNode(t, before)
	defer slow.finish()
	r := n.startOn(h)
	both := func(uid string) [2]string {
		return [2]string{
			n.RunContainer(n.RunPod(uid+"m", "kube-system", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 102}),
			n.RunContainer(n.RunPod(uid+"s", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512}),
		}
	}
	first := both("first")
	r.quiet()
	held := n.StateAt("system.slice/du.service").CPUs
	if held.Len() != 2 {
		t.Fatalf("the unit is on %s; want two CPUs of its own", held)
	}
	n.Tree.Intercept(func(w testnode.CgroupWrite) error {
		cpus, err := cpuset.Parse(w.Value)
		runs := n.StateAt(cgroup.Path(filepath.Dir(w.Name))).Effective
		if filepath.Base(w.Name) == cgroup.FileCPUs && (err != nil || cpus.Difference(runs).Overlaps(held)) && n.StateAt("system.slice/du.service").CPUs.Equal(held) {
			t.Errorf("%s gets %s; the unit is still on %s", w.Name, w.Value, held)
		}
		return nil
	})
	n.YAML = after
	r.loop.watchers.reload()
	<-slow.asked
	second := both("second")
	for i, want := range meanwhile {
		if want == "" {
			continue
		}
		n.AwaitCPUs(second[i], want)
	}
	if got := n.StateAt("system.slice/du.service").CPUs; !got.Equal(held) {
		t.Fatalf("the unit has left for %s: the test shows nothing; want %s", got, held)
	}
	if faults := n.Logged("not in the desired state"); len(faults) > 0 {
		t.Errorf("to wait for systemd is no fault: %v", faults)
	}
	slow.finish()
	for i, want := range then {
		n.AwaitCPUs(first[i], want)
		n.AwaitCPUs(second[i], want)
	}
	r.quiet()
}

// ineffectiveUnits is a systemd that reports reverted properties while the kernel keeps the old
// values.
type ineffectiveUnits struct {
	hostenv.Units
	tree *testnode.Cgroups
}

func (d ineffectiveUnits) Revert(ctx context.Context, unit string, originals []systemd.Property, nodes cpuset.Set) error {
	name := "system.slice/" + unit + "/" + cgroup.FileCPUs
	before, err := d.tree.ReadFile(name, 100)
	if err != nil {
		return err
	}
	if err := d.Units.Revert(ctx, unit, originals, nodes); err != nil {
		return err
	}
	return d.tree.Write(name, string(before))
}

// TestRevertIsVerified checks that CPUs of a unit are not allocated, and its original stays,
// while the kernel keeps the unit on them.
func TestRevertIsVerified(t *testing.T) {
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.StartUnit("du.service")
	n.YAML = nodefixture.PoolsYAML + "units: {du.service: {cpus: 2}}\n"
	h := n.Host()
	h.Units = ineffectiveUnits{h.Units, n.Tree}
	r := n.startOn(h)
	n.AwaitUnitCPUs("du.service", "4-5")
	r.quiet()
	n.YAML = nodefixture.PoolsYAML
	r.loop.watchers.reload()
	n.Eventually("error", func() bool { return len(n.Logged("unit has not got its CPUs back")) == 1 })
	late := n.RunContainer(n.RunPod("e", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(late, "6-7")
	r.stop()
	if got := n.Journal(); len(got.Originals) == 0 || !slices.ContainsFunc(got.Originals, func(o undo.Original) bool { return o.Unit == "du.service" }) {
		t.Errorf("originals %v; want that of du.service", got.Originals)
	}
	r = n.start()
	n.AwaitUnitCPUs("du.service", "0-7")
	r.quiet()
}

// TestMoveWhileAUnitLeaves checks that a move allocates no CPUs that a unit has not left,
// neither to the moved owner nor to others. The move comes while systemd reverts the unit, or
// with the reload.
func TestMoveWhileAUnitLeaves(t *testing.T) {
	n, h, slow := slowUnitNode(t, nodefixture.PoolsYAML)
	defer slow.finish()
	r := n.startOn(h)
	n.AwaitUnitCPUs("du.service", "4-5")
	single := n.RunContainer(n.RunPod("a", "default", "guaranteed", 1, nil), "app", nodefixture.WholeCPUs(1))
	n.Eventually("placed", func() bool { return n.State(single).Effective.Len() == 1 && n.State(single).Quota == -1 })
	r.quiet()
	has := n.State(single).Effective
	free := cpuset.Range(6, 7).Difference(has)
	move := func(to cpuset.Set) control.Move {
		return control.Move{PodUID: "a", Container: "app", From: has, To: to}
	}

	r.stop()
	n.YAML = nodefixture.PoolsYAML
	l := r.loop
	l.handle(configLoaded{config: n.options().Config})
	if _, err := l.assignmentsAfter(moves.Ask(move(cpuset.Of(4)), nil), l.now()); err == nil {
		t.Error("a container may be moved to the CPUs of a unit that is there")
	}
	m := moves.Ask(move(free), nil)
	moveRequest{m}.apply(l)
	if got := pools.Assigned(l.planner.Assignments(), pools.Key{Container: "du.service"}).String(); got != "4-5" || len(m.Reply()) > 0 {
		t.Errorf("the unit that is to leave has CPUs %q on record after a move; want 4-5", got)
	}

	r = n.startOn(h)
	<-slow.asked
	if outcome, err := requestMove(t.Context(), r.loop, move(free)); outcome != control.Done {
		t.Fatalf("move = %s, %v; want %s", outcome, err, control.Done)
	}
	late := n.RunContainer(n.RunPod("b", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(late, "2-3")
	slow.finish()
	n.AwaitCPUs(late, "4-5")
	r.quiet()
}

// TestNobodyGivesWayForALeavingUnit checks that a shared pool which has only the CPUs of a
// leaving unit waits for them, and takes none from an owner.
func TestNobodyGivesWayForALeavingUnit(t *testing.T) {
	n, h, slow := slowUnitNode(t, nodefixture.CarvedYAML)
	defer slow.finish()
	r := n.startOn(h)
	excl := n.RunContainer(n.RunPod("a", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	n.Eventually("placed", func() bool { return n.State(excl).Effective.Len() == 2 && n.State(excl).Quota == -1 })
	r.quiet()
	has, unit := n.State(excl).Effective, n.StateAt("system.slice/du.service").CPUs
	rest := cpuset.Range(2, 7).Difference(has.Union(unit))
	before := len(n.Tree.Writes())
	n.YAML = strings.NewReplacer("cpus: 0-1", `cpus: "0-1,`+rest.String()+`"`, "cpus: 2-7", `cpus: "`+has.Union(unit).String()+`"`).Replace(nodefixture.CarvedYAML)
	r.loop.watchers.reload()
	<-slow.asked
	late := n.RunContainer(n.RunPod("m", "kube-system", "burstable", 0, nodefixture.Management(nil)), "app", cri.Resources{Shares: 102})
	n.AwaitCPUs(late, cpuset.Range(0, 1).Union(rest).String())
	slow.finish()
	r.quiet()
	for _, w := range n.Tree.Writes()[before:] {
		if filepath.Dir(w.Name) == n.Runtime.Cgroup(excl) {
			t.Errorf("the container was disturbed: %v", w)
		}
	}
}
