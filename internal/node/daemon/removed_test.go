package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestRemovedContainer checks the CPUs of a container that has ended and was removed. Its end
// time is unknown to the daemon that saw it and to the next one. At worst another container of
// its pod that has waited gets its CPUs; two containers never share them.
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
		total uint64 // of the pod, in CPUs; 0 if unknown
		other bool   // another pod has CPUs 4-5
		late  string // CPUs of the container b, which started while a was running
		kept  string // CPUs that a keeps
	}{
		"runs":                             {[]pools.Container{app("a", 10)}, 4, true, "", "6-7"},
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
		for _, err := range invariants.Check(plan, in.Pools) {
			t.Errorf("%s: %v", name, err)
		}
		late := pools.Assigned(plan.Assignments, pools.Key{PodUID: "p", Container: "b"}).String()
		kept := pools.Assigned(plan.Assignments, pools.Key{PodUID: "p", Container: "a"}).String()
		if late != c.late || kept != c.kept {
			t.Errorf("%s: a keeps %q and b has %q; want %q and %q", name, kept, late, c.kept, c.late)
		}
	}
}
