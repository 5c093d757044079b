package planning_test

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// world is a node with one container, which requests two exclusive CPUs.
type world struct {
	*planning.Planner
	planning.Sources
	node      *nodefixture.Node
	inventory *inventory.Inventory
	id        string
	asked     int // questions about hints
	now       time.Time
}

func newWorld(t *testing.T, journal ...pools.Assignment) *world {
	t.Helper()
	w := &world{node: nodefixture.New(t, nodefixture.Spec{}), now: time.Unix(1000, 0)}
	c, err := w.node.Config()
	settings := new(desired.Settings)
	if err == nil {
		_, err = settings.Begin(c, w.node.CPUs.Now(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.node.Kubelet = nodefixture.NewKubelet()
	h, log, j := w.node.Host(), w.node.Logger(), undo.Document{}.Journal()
	j.SetAssignments(journal)
	w.inventory = inventory.New(h.Driver)
	w.Sources = planning.Sources{
		Host: &h, Log: log, Settings: settings, Objects: w.inventory.Objects(), Cache: kernelstate.New(h.Cgroups.Reader(), log), Journal: j, Auxiliary: auxiliary.New(h.Driver),
		AskHints: func(map[pools.Key]bool) { w.asked++ },
	}
	w.Planner = planning.New(w.Sources, "linear")
	w.id = w.node.RunContainer(w.node.RunPod("u", "default", "guaranteed", 2, nil), "app", nodefixture.WholeCPUs(2))
	l := w.inventory.Query(nil, true).List(t.Context(), &h)
	if l.Err != nil {
		t.Fatal(l.Err)
	}
	w.inventory.Merge(l)
	return w
}

// at returns a time at which only the planner limits the plan.
func (*world) at(now time.Time) planning.Moment { return planning.Moment{Now: now} }

func (w *world) key() pools.Key { return pools.Key{PodUID: "u", Container: "app"} }

// TestDecide checks that the plan gives a container its exclusive CPUs and keeps the assignment in
// force.
func TestDecide(t *testing.T) {
	w := newWorld(t)
	w.Host.Devices = nil
	if got := pools.Assigned(w.Decide(w.at(w.now)).Plan.Assignments, w.key()).String(); got != "4-5" {
		t.Errorf("the container gets CPUs %q; want 4-5", got)
	}
	w.Assign([]pools.Assignment{{Key: w.key(), CPUs: cpuset.Range(6, 7)}})
	d := w.Decide(w.at(w.now))
	if got := pools.Assigned(d.Plan.Assignments, w.key()).String(); got != "6-7" {
		t.Errorf("the container gets CPUs %q; want its own 6-7", got)
	}
	i := 0
	for i < len(d.Targets) && d.Targets[i].Container != w.id {
		i++
	}
	if i == len(d.Targets) || d.Targets[i].CPUs.String() != "6-7" {
		t.Errorf("targets: %+v", d.Targets)
	}
	m := planning.Moment{Now: w.now, Leaving: map[cgroup.Path]cpuset.Set{"x.service": cpuset.Of(4)}, Lost: cpuset.Of(5), Parked: cpuset.Of(4)}
	if o := w.DiffOptions(d.Plan, m); o.Spare.String() != "5" || !o.Leaving["x.service"].Equal(cpuset.Of(4)) {
		t.Errorf("options of Diff: %+v", o)
	}
	w.Assign(nil)
	if got := pools.Assigned(w.Decide(m).Plan.Assignments, w.key()).String(); got != "6-7" {
		t.Errorf("the container gets CPUs %q; want 6-7, because CPU 4 leaves and CPU 5 is in no cgroup", got)
	}
}

// TestHints checks that missing hints are queried once, and that a pod lacks them until then.
func TestHints(t *testing.T) {
	w := newWorld(t)
	if !w.LacksHints(w.PodInput("u", w.now)) {
		t.Error("the hints of a container that the kubelet has not reported are known")
	}
	for range 2 {
		w.Input(w.at(w.now))
	}
	if w.asked != 1 {
		t.Errorf("the kubelet is queried %d times; want 1", w.asked)
	}
	w.Host.Devices = nil
	if w.Input(w.at(w.now.Add(time.Hour))); w.asked != 1 || w.LacksHints(w.PodInput("u", w.now)) {
		t.Error("a kubelet that reports no devices is queried")
	}
}

// TestSettleQuiet checks that the CPUs that rest by a plan are logged and go to the journal.
func TestSettleQuiet(t *testing.T) {
	w := newWorld(t)
	w.Quiet.Begin(time.Hour, w.now)
	w.SettleQuiet(pools.Plan{Resting: cpuset.Range(6, 7), Assignments: []pools.Assignment{{Key: w.key(), CPUs: cpuset.Range(4, 5)}}}, nil, nil, w.now)
	if got := w.Journal.Facts().Resting.String(); got != "6-7" || len(w.node.Logged("quiet: waits")) != 1 {
		t.Errorf("the journal has resting CPUs %q; want 6-7, in the log too", got)
	}
	w.SettleQuiet(pools.Plan{}, nil, nil, w.now)
	if got := w.Journal.Facts().Resting; !got.IsEmpty() || len(w.node.Logged("quiet: no writes wait")) != 1 {
		t.Errorf("the journal has resting CPUs %s; want none, and a log message", got)
	}
}

// TestEarly checks that the plan before the first pass gives no exclusive CPUs of the journal away.
func TestEarly(t *testing.T) {
	w := newWorld(t, pools.Assignment{Key: pools.Key{PodUID: "gone", Container: "a"}, CPUs: cpuset.Range(4, 5)})
	if plan := w.Early(w.now); plan.Shared.Overlaps(cpuset.Range(4, 5)) || plan.Shared.IsEmpty() {
		t.Errorf("shared CPUs before the first pass: %s", plan.Shared)
	}
}

// TestRecover checks that a container keeps the CPUs of the journal on which it runs.
func TestRecover(t *testing.T) {
	w := newWorld(t, pools.Assignment{Key: pools.Key{PodUID: "u", Container: "app"}, CPUs: cpuset.Range(6, 7)})
	w.node.WriteFile(w.id, cgroup.FileCPUs, "6-7")
	w.Assign(w.Recovered())
	w.RecoverLate(w.inventory.TakeUnrecovered())
	if got := pools.Assigned(w.Assignments(), w.key()).String(); got != "6-7" {
		t.Errorf("recovered CPUs %q; want 6-7", got)
	}
}
