package scenario_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/scenario"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// fakeRuntime is a Runtime with CPUs of containers, by ID. The IDs contain the names of pod and
// container.
type fakeRuntime map[string]cpuset.Set

func (b fakeRuntime) RunPod(s testnode.PodSpec) (string, error) { return s.UID, nil }
func (b fakeRuntime) StopPod(string) error                      { return nil }
func (b fakeRuntime) RemovePod(string) error                    { return nil }
func (b fakeRuntime) StartContainer(string) error               { return nil }
func (b fakeRuntime) StopContainer(id string) error             { delete(b, id); return nil }
func (b fakeRuntime) RemoveContainer(string) error              { return nil }
func (b fakeRuntime) Resize(string, cri.Resources) error        { return nil }

func (b fakeRuntime) CreateContainer(pod string, s testnode.ContainerSpec) (string, error) {
	return fmt.Sprintf("%s/%s#%d", pod, s.Name, s.Attempt), nil
}

func (b fakeRuntime) CPUs(id string) (cpuset.Set, bool) { cpus, runs := b[id]; return cpus, runs }

func (b fakeRuntime) UnitCPUs(string) (cpuset.Set, bool) { return cpuset.Set{}, false }

// at returns a placement on one exclusive CPU, or in the shared pool if cpu is at most 1.
func at(id string, cpu int) pools.Placement {
	_, name, _ := strings.Cut(strings.TrimSuffix(strings.TrimSuffix(id, "#0"), "#1"), "/")
	p := pools.Placement{ID: id, Name: name, State: pools.Running, Pool: pools.Shared, CPUs: cpuset.Range(0, 1), Reason: pools.Reason{Code: "test", Text: "test"}}
	if cpu > 1 {
		p.Pool, p.CPUs, p.Exclusive, p.Unlimited = pools.Guaranteed, cpuset.Of(cpu), true, true
	}
	return p
}

func planOf(placements ...pools.Placement) pools.Plan {
	plan := pools.Plan{Shared: cpuset.Range(0, 1), Free: cpuset.Range(2, 5)}
	sandbox := at("p", 0)
	sandbox.Name, sandbox.Kind, sandbox.State = "POD", pools.Infra, pools.Exited
	pod := pools.PodPlan{UID: "p", Unlimited: true, Reason: sandbox.Reason, Containers: []pools.Placement{sandbox}}
	for _, at := range placements {
		pod.Containers = append(pod.Containers, at)
		if at.Exclusive {
			plan.Assignments = append(plan.Assignments, pools.Assignment{Key: pools.Key{PodUID: "p", Container: at.Name}, CPUs: at.CPUs})
			plan.Free = plan.Free.Difference(at.CPUs)
		}
	}
	plan.Pods = []pools.PodPlan{pod}
	return plan
}

// TestCheckFindsWhatIsWrong checks the error of Check after steps with a pod. The containers a
// and b of the pod start on CPUs 2 and 3.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	on := pools.Pools{Shared: cpuset.Range(0, 1), Guaranteed: cpuset.Range(2, 5)}
	restart := []scenario.Step{{Kind: scenario.StopContainer, Pod: "p", Container: "a"},
		{Kind: scenario.CreateContainer, Pod: "p", Container: "a", Spec: scenario.ContainerSpec{Milli: 1000}}, {Kind: scenario.StartContainer, Pod: "p", Container: "a"}}
	reload := []scenario.Step{{Kind: scenario.Reload}}
	b := at("p/b#0", 3)
	for _, test := range []struct {
		name   string
		steps  []scenario.Step
		plan   pools.Plan
		kernel fakeRuntime
		want   string // part of the error; empty means no error
	}{
		{"nothing", nil, planOf(at("p/a#0", 2), b), nil, ""},
		{"moved", nil, planOf(at("p/a#0", 4), b), nil, "p/a was moved from 2 to 4"},
		{"moved by a reload", reload, planOf(at("p/a#0", 4), b), nil, "p/a was moved from 2 to 4"},
		{"lost", nil, planOf(at("p/a#0", 0), b), nil, "p/a has lost 2"},
		{"lost by a reload", reload, planOf(at("p/a#0", 0), b), nil, ""},
		{"restarted", restart, planOf(at("p/a#1", 2), b), nil, ""},
		{"moved by a restart", restart, planOf(at("p/a#1", 4), b), nil, "p/a was moved from 2 to 4"},
		{"elsewhere", nil, planOf(at("p/a#0", 2), b), fakeRuntime{"p/a#0": cpuset.Of(5)}, "p/a p/a#0 runs on 5; planned is 2"},
		{"intruder", nil, planOf(at("p/a#0", 2), b), fakeRuntime{"p/a#0": cpuset.Of(3)}, "share CPU 3"},
		{"more than its total", nil, planOf(at("p/a#0", 2), b), fakeRuntime{"p/a#0": cpuset.Of(2, 4)}, "p has the exclusive CPUs 2-4; its total is 2000"},
		{"moved as asked for", []scenario.Step{{Kind: scenario.MoveOwner}}, planOf(at("p/a#0", 4), b), nil, ""},
		{"moved elsewhere", []scenario.Step{{Kind: scenario.MoveOwner}}, planOf(at("p/a#0", 5), b), nil, "p/a was moved from 4 to 5"},
		{"move not made", []scenario.Step{{Kind: scenario.MoveOwner}}, planOf(at("p/a#0", 2), b), nil, "p/a was moved from 4 to 2"},
		{"moved or not", []scenario.Step{{Kind: scenario.MoveOwner, After: 1}}, planOf(at("p/a#0", 2), b), nil, ""},
		{"moved, or not", []scenario.Step{{Kind: scenario.MoveOwner, After: 1}}, planOf(at("p/a#0", 4), b), nil, ""},
		{"resized", []scenario.Step{{Kind: scenario.ResizeContainer, Pod: "p", Container: "a"}}, planOf(at("p/a#0", 0), b), nil, ""},
		{"moved by a resize", []scenario.Step{{Kind: scenario.ResizeContainer, Pod: "p", Container: "a"}}, planOf(at("p/a#0", 4), b), nil, "p/a was moved from 2 to 4"},
		{"moved though its CPU is online", []scenario.Step{{Kind: scenario.PlugCPUs}}, planOf(at("p/a#0", 4), b), nil, "p/a was moved from 2 to 4"},
		{"bad plan", nil, planOf(at("p/a#0", 3), b), nil, "assignment of p/b (3) is empty or not within what others leave"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kernel := make(fakeRuntime)
			pods := scenario.NewPods(kernel)
			do := func(steps ...scenario.Step) {
				t.Helper()
				for _, s := range steps {
					if s.Kind == scenario.MoveOwner {
						m := scenario.Move{Owner: pools.Key{PodUID: "p", Container: "a"}, From: cpuset.Of(2), To: cpuset.Of(4)}
						pods.Moved(m, s.After == 0)
					}
					if _, err := pods.Do(s); err != nil {
						t.Fatal(err)
					}
				}
			}
			runs := func(plan pools.Plan) {
				clear(kernel)
				for _, c := range plan.Pods[0].Containers[1:] {
					kernel[c.ID] = c.CPUs
				}
			}
			do(scenario.Step{Kind: scenario.RunPod, Pod: "p", Of: scenario.PodSpec{QoS: "guaranteed", Milli: 2000}})
			for _, name := range []string{"a", "b"} {
				do(scenario.Step{Kind: scenario.CreateContainer, Pod: "p", Container: name, Spec: scenario.ContainerSpec{Milli: 1000}},
					scenario.Step{Kind: scenario.StartContainer, Pod: "p", Container: name})
			}
			first := planOf(at("p/a#0", 2), b)
			runs(first)
			if _, err := pods.Check(first, on); err != nil {
				t.Fatalf("before: %v", err)
			}
			do(test.steps...)
			runs(test.plan)
			maps.Copy(kernel, test.kernel)
			_, err := pods.Check(test.plan, on)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Check: %v; want %q", err, test.want)
			}
		})
	}
}
