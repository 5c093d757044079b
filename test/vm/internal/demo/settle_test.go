package demo

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

func TestState(t *testing.T) {
	want := []manifest.Pod{
		{Name: "a", Namespace: "default", Containers: []manifest.Container{{Name: "x"}, {Name: "y"}}},
		{Name: "b", Namespace: "default", Containers: []manifest.Container{{Name: "x"}}},
	}
	pod := func(name string, states ...pools.ContainerState) pools.PodPlan {
		p := pools.PodPlan{Name: name, Namespace: "default", Containers: []pools.Placement{{Name: "x", Kind: pools.Infra, State: pools.Running}}}
		for i, s := range states {
			p.Containers = append(p.Containers, pools.Placement{Name: string(rune('x' + i)), State: s})
		}
		return p
	}
	for name, test := range map[string]struct {
		pods    []pools.PodPlan
		left    int
		want    string
		settled bool
	}{
		"nothing":      {nil, 0, "0 of 2 pods are there, 0 of 3 containers run", false},
		"sandboxes":    {[]pools.PodPlan{pod("a-node"), pod("b-node")}, 0, "2 of 2 pods are there, 0 of 3 containers run", false},
		"created":      {[]pools.PodPlan{pod("a-node", pools.Running, pools.Created)}, 0, "1 of 2 pods are there, 1 of 3 containers run", false},
		"others":       {[]pools.PodPlan{pod("a", pools.Running)}, 0, "0 of 2 pods are there, 0 of 3 containers run; to end: 1", false},
		"run":          {[]pools.PodPlan{pod("a-node", pools.Running, pools.Running), pod("b-node", pools.Running)}, 0, "2 of 2 pods are there, 3 of 3 containers run", true},
		"not idle":     {[]pools.PodPlan{pod("a-node", pools.Running, pools.Running), pod("b-node", pools.Running)}, 2, "2 of 2 pods are there, 3 of 3 containers run; left to do: 2", false},
		"one too many": {[]pools.PodPlan{pod("a-node", pools.Running, pools.Running), pod("b-node", pools.Running), pod("c-node")}, 0, "2 of 2 pods are there, 3 of 3 containers run; to end: 1", false},
		"ended":        {[]pools.PodPlan{pod("a-node", pools.Exited, pools.Running), pod("b-node", pools.Running)}, 0, "2 of 2 pods are there, 2 of 3 containers run", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf(want, planPods(pools.Plan{Pods: test.pods}))
			s.left = test.left
			if d := cmp.Diff(test.want, s.String()); d != "" {
				t.Errorf("state (-want +got):\n%s", d)
			}
			if s.settled() != test.settled {
				t.Errorf("settled = %t; want %t", s.settled(), test.settled)
			}
		})
	}
}

func TestStatusPods(t *testing.T) {
	container := func(pod, name, state string) inspect.Container {
		return inspect.Container{Namespace: "default", Pod: pod, Name: name, State: state}
	}
	got := statusPods(&inspect.Status{Containers: []inspect.Container{
		container("a-node", "x", "running"), container("a-node", "y", "created"), container("a-node", "z", "running"),
		container("b-node", "x", "exited"), // it holds its CPUs
		{Unit: true, Name: unit, State: "running"},
	}})
	if d := cmp.Diff(podSet{"default/a-node": {"x", "z"}, "default/b-node": nil}, got); d != "" {
		t.Errorf("pods (-want +got):\n%s", d)
	}
}
