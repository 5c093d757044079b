package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestRemovedContainer: of a container that has ended and was removed nobody knows any
// more when it ended, neither the daemon that saw it nor one that starts afterwards.
// At worst its CPUs go to another container of its pod that has waited for some beside
// it; nobody ever shares them.
func TestRemovedContainer(t *testing.T) {
	n := newNode(t)
	app := func(name string, created int64) pools.Container {
		return pools.Container{ID: name, Name: name, State: pools.Running, CreatedAt: created, Resources: pools.Resources{Shares: 2048}}
	}
	ended := func(finished int64) []pools.Container {
		a := app("a", 10)
		a.State, a.FinishedAt = pools.Exited, finished
		return []pools.Container{a}
	}
	pool, has := cpuset.Range(4, 7), cpuset.Range(6, 7)
	for name, c := range map[string]struct {
		a     []pools.Container
		total uint64 // of the pod, in CPUs; 0 if it is not known
		other bool   // another pod has CPUs 4-5
		late  string // CPUs of the container b, which came while a was running
		kept  string // CPUs that stay a's
	}{
		"runs":                             {[]pools.Container{app("a", 10)}, 0, true, "", "6-7"},
		"has run beside it":                {ended(30), 0, true, "", "6-7"},
		"nobody knows when it ended":       {ended(0), 0, true, "6-7", ""},
		"removed":                          {nil, 0, true, "6-7", ""},
		"removed, and there are others":    {nil, 0, false, "4-5", "6-7"},
		"removed from a pod that needs it": {nil, 4, false, "4-5", "6-7"},
	} {
		pod := pools.Pod{UID: "p", Namespace: "default", Name: "p", QoS: pools.QoSGuaranteed, Settled: true,
			Resources: pools.Resources{Shares: 1024 * c.total}, Containers: append(c.a, app("b", 20))}
		in := pools.Input{Machine: allocate.New(n.Topology), Pools: pools.Pools{Shared: cpuset.Range(0, 3), Guaranteed: pool}, Pods: []pools.Pod{pod},
			Previous: []pools.Assignment{{Key: pools.Key{PodUID: "p", Container: "a"}, CPUs: has}}}
		if c.other {
			in.Pods = append(in.Pods, pools.Pod{UID: "o", Namespace: "default", Name: "o", QoS: pools.QoSGuaranteed, Containers: []pools.Container{app("app", 1)}})
			in.Previous = append(in.Previous, pools.Assignment{Key: pools.Key{PodUID: "o", Container: "app"}, CPUs: cpuset.Range(4, 5)})
		}
		plan := pools.Build(in)
		for _, err := range pools.Check(plan, in.Pools) {
			t.Errorf("%s: %v", name, err)
		}
		late := desired.Assigned(plan.Assignments, pools.Key{PodUID: "p", Container: "b"}).String()
		kept := desired.Assigned(plan.Assignments, pools.Key{PodUID: "p", Container: "a"}).String()
		if late != c.late || kept != c.kept {
			t.Errorf("%s: a keeps %q and b has %q; want %q and %q", name, kept, late, c.kept, c.late)
		}
	}
}

// TestAnswerAfterRemoval: an answer about a container that was asked for before its
// removal, and comes after it, does not bring it back, whether it is to a question for
// the container or to a listing. One that was asked for afterwards counts: the removal
// may have failed.
func TestAnswerAfterRemoval(t *testing.T) {
	n := newNode(t)
	pod := n.RunPod("p", "default", "guaranteed", 2, nil)
	id := n.RunContainer(pod, "app", nodefixture.WholeCPUs(2))
	r := n.start()
	n.Eventually("placed", func() bool { return n.State(id).Effective.Len() == 2 })
	r.quiet()
	facts, err := inventory.FetchContainer(t.Context(), r.loop.Runtime, r.loop.Units, r.loop.Driver, id, inventory.UnitPatience)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := inventory.FetchPod(t.Context(), r.loop.Runtime, r.loop.Units, r.loop.Driver, pod, inventory.UnitPatience)
	if err != nil {
		t.Fatal(err)
	}
	var before int
	r.inspect(func(l *Loop) { before = l.inventory.Clock })
	if err := n.Runtime.StopPod(pod); err != nil {
		t.Fatal(err)
	}
	if err := n.Runtime.RemovePod(pod); err != nil {
		t.Fatal(err)
	}
	there := func() (pods, containers int) {
		r.inspect(func(l *Loop) { pods, containers = l.inventory.Len() })
		return pods, containers
	}
	// By its events: that the runtime does not find them any more may be heard before.
	n.Eventually("removal seen", func() bool {
		told := false
		r.inspect(func(l *Loop) { told = l.inventory.Outdated(id, before) && l.inventory.Outdated(pod, before) })
		pods, containers := there()
		return told && pods == 0 && containers == 0
	})

	answer := func(asOf int) (events [3]event) {
		c := facts
		c.AsOf = asOf
		return [3]event{
			containerFetched{id: id, container: c},
			podFetched{id: pod, asOf: asOf, pod: sandbox},
			listed{inventory.Listing{AsOf: asOf, Pods: []inventory.PodStatus{sandbox}, Containers: []inventory.ContainerStatus{facts}}},
		}
	}
	var after int
	r.inspect(func(l *Loop) { after = l.inventory.Clock })
	for i, e := range answer(before) {
		r.loop.box.Post(e)
		if pods, containers := there(); pods != 0 || containers != 0 {
			t.Errorf("late answer %d: %d pods and %d containers are back", i, pods, containers)
		}
	}
	r.loop.box.Post(answer(after)[2])
	if pods, containers := there(); pods != 1 || containers != 1 {
		t.Errorf("a listing from after the removal: %d pods and %d containers; want that it counts", pods, containers)
	}
}

// TestNotFound: what a question did not find any more, answers to older ones do not bring
// back. A younger one may find it: some runtimes tell of a container before it is there.
func TestNotFound(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	m.PutContainer(inventory.ContainerStatus{Container: cri.Container{ID: "c"}})
	asked := m.Clock
	m.RemoveAsOf("c", asked)
	if m.Container("c") != nil || !m.Outdated("c", asked-1) || m.Outdated("c", asked) {
		t.Errorf("not found as of %d: there %t, answer of before outdated %t, one of then %t; want false, true, false",
			asked, m.Container("c") != nil, m.Outdated("c", asked-1), m.Outdated("c", asked))
	}
	m.ForgetRemoved(asked)
	if len(m.Removed) > 0 {
		t.Errorf("after a listing of then: %v is still noted", m.Removed)
	}
}
