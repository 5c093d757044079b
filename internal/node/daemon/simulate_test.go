package daemon

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// TestSimulationIsWhatTheDaemonDoes checks that a simulation makes the plan of a daemon with
// the same pods.
func TestSimulationIsWhatTheDaemonDoes(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { t.Parallel(); compareSimulation(t, seed) })
	}
}

// simulatedPod is a pod for both: as JSON of the API, and as a kubelet makes it.
type simulatedPod struct {
	name, namespace, qos string
	annotations          map[string]string
	inits, apps          []int // thousandths of a CPU
}

func compareSimulation(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 9)) //nolint:gosec // to be repeatable is the point
	n := newNode(t)
	if seed%2 == 1 {
		n.YAML = "apiVersion: config.cpupoold.io/v1alpha1\nkind: CPUPoolConfiguration\n" +
			"partitions: [{type: management, cpus: \"0\", namespaces: [kube-system]}]\nguaranteed: {from: shared, floor: 2}\n"
	}
	r := n.start()
	o := newAnswers(r.loop.publisher, r.loop.Cgroups, n.options())
	c, err := n.Config()
	if err != nil {
		t.Fatal(err)
	}
	s, err := simulate.NewNode(c, n.Topology, nil)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]string{} // ids of the present containers, by full name
	var names []string
	for i := range 8 {
		if len(names) > 2 && random.IntN(3) == 0 {
			at := random.IntN(len(names))
			name := names[at]
			names = append(names[:at], names[at+1:]...)
			if err := n.Runtime.StopPod(ids[name]); err != nil {
				t.Fatal(err)
			}
			if err := n.Runtime.RemovePod(ids[name]); err != nil {
				t.Fatal(err)
			}
			if err := s.Remove(name); err != nil {
				t.Fatal(err)
			}
			r.Eventually(name+" is gone", func() bool {
				return !slices.ContainsFunc(o.Status().Containers, func(c inspect.Container) bool { return c.Namespace+"/"+c.Pod == name })
			})
		} else {
			p := randomPod(random, i)
			name := p.namespace + "/" + p.name
			names, ids[name] = append(names, name), p.run(r, o)
			if err := s.Add(p.api(t)); err != nil {
				t.Fatal(err)
			}
		}
		r.quiet()
		if diff := cmp.Diff(shownPlan(o.Status().Containers), shownPlan(s.Document("").Containers)); diff != "" {
			t.Fatalf("seed %d, event %d (-daemon +simulation):\n%s", seed, i, diff)
		}
	}
}

// shownPlan returns the pool and CPUs of each container by name. Some that have exited hold
// CPUs.
func shownPlan(all []inspect.Container) map[string]string {
	plan := make(map[string]string)
	for _, c := range all {
		plan[c.Full()] = fmt.Sprint(c.Pool, c.Type, " ", c.CPUs, c.Exclusive, c.Refused, c.Code, c.State)
	}
	return plan
}

func randomPod(random *rand.Rand, i int) simulatedPod {
	p := simulatedPod{name: fmt.Sprintf("pod-%d", i), namespace: "default", qos: "guaranteed"}
	switch random.IntN(6) {
	case 0:
		p.qos, p.apps = "besteffort", []int{0}
	case 1:
		p.qos, p.apps = "burstable", []int{100 + random.IntN(2000)}
	case 2:
		p.namespace, p.qos, p.apps = "kube-system", "besteffort", []int{0}
		p.annotations = map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	default:
		for range random.IntN(2) {
			p.inits = append(p.inits, 1000*(1+random.IntN(2)))
		}
		for range 1 + random.IntN(2) {
			p.apps = append(p.apps, 1000*(1+random.IntN(3)))
		}
		if random.IntN(3) == 0 {
			p.apps = append(p.apps, 200)
		}
	}
	return p
}

// resources returns the resources that a kubelet makes of an amount: request and limit in a
// Guaranteed pod, otherwise a request.
func (p *simulatedPod) resources(milli int) cri.Resources {
	res := cri.Resources{Shares: uint64(max(milli*1024/1000, 2))}
	if p.qos == "guaranteed" {
		res.Quota, res.Period = int64(milli)*100, 100_000
	}
	return res
}

// run starts the pod on the fake node as a kubelet does. It waits after each step: two steps in
// one pass would have another order than in the simulation.
func (p *simulatedPod) run(r *running, o *view.Answers) string {
	known := func(id, state string) {
		r.Eventually(p.name+" "+id+" is "+state, func() bool {
			return slices.ContainsFunc(o.Now().AllContainers(), func(c inspect.Container) bool { return c.ID == id && c.State == state })
		})
		r.quiet()
	}
	total := 0
	for _, milli := range p.apps {
		total += milli
	}
	for _, milli := range p.inits {
		total = max(total, milli)
	}
	id, err := r.Runtime.RunPod(testnode.PodSpec{UID: p.name, Namespace: p.namespace, Name: p.name, QoS: p.qos, Annotations: p.annotations, Resources: p.resources(total)})
	if err != nil {
		r.T.Fatal(err)
	}
	known(id, "running")
	for i, milli := range p.inits {
		ctr := r.RunContainer(id, fmt.Sprintf("init-%d", i), p.resources(milli))
		known(ctr, "running")
		if err := r.Runtime.StopContainer(ctr); err != nil {
			r.T.Fatal(err)
		}
		known(ctr, "exited")
	}
	for i, milli := range p.apps {
		known(r.RunContainer(id, fmt.Sprintf("app-%d", i), p.resources(milli)), "running")
	}
	return id
}

// api returns the pod as an API server has it.
func (p *simulatedPod) api(t *testing.T) *simulate.Pod {
	containers := func(name string, all []int) []any {
		var list []any
		for i, milli := range all {
			amounts := map[string]any{}
			if milli > 0 {
				amounts["requests"] = map[string]string{"cpu": fmt.Sprintf("%dm", milli)}
			}
			if p.qos == "guaranteed" {
				amounts = map[string]any{"limits": map[string]string{"cpu": fmt.Sprintf("%dm", milli), "memory": "1Gi"}}
			}
			list = append(list, map[string]any{"name": fmt.Sprintf("%s-%d", name, i), "resources": amounts})
		}
		return list
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": p.name, "namespace": p.namespace, "uid": p.name, "annotations": p.annotations},
		"spec":     map[string]any{"initContainers": containers("init", p.inits), "containers": containers("app", p.apps)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var o simulate.Objects
	for _, err := range o.Read("-", text, "") {
		t.Fatal(err)
	}
	return &o.Pods[0]
}
