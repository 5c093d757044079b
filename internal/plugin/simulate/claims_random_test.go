package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestAllocatedClaimsHaveCPUs checks that the planner refuses no claim that the allocator of Kubernetes has
// allocated. Pods are created and removed at random. Each claim has its number of CPUs, and no CPU has two claims.
func TestAllocatedClaimsHaveCPUs(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 0))
		machine := []string{"1s8c2t", "2s6c2t", "2s2n2l4c2t", "4s5c"}[r.IntN(4)]
		m, err := simulate.Describe(machine)
		if err != nil {
			t.Fatal(err)
		}
		var list cpuset.Set // whole cores without the first one
		for _, core := range m.Cores[1:] {
			if r.IntN(3) > 0 {
				list = list.Union(core.CPUs)
			}
		}
		options := []string{`{}`, `{full-pcpus-only: "true"}`, `{one-owner-per-core: "true"}`, `{distribute-cpus-across-cores: "true"}`, `{prefer-align-cpus-by-uncorecache: "true"}`}[r.IntN(5)]
		text := fmt.Sprintf("apiVersion: %s\nkind: %s\nguaranteed: {options: %s, claims: {cpus: %q}}\n", config.APIVersion, config.Kind, options, list)
		c, err := config.Parse([]byte(text), "config.yaml", config.Overrides{}, m)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		o, events := randomPods(t, r)
		n, err := simulate.NewNode(c, m, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Run(o, events); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		d := n.Document("")
		if len(d.Allocations) == 0 {
			t.Errorf("seed %d: no claim has a device", seed)
		}
		var taken cpuset.Set
		for _, c := range d.Allocations {
			if c.Driver != dra.Driver || c.Count < 1 || c.CPUs.Len() != c.Count || c.CPUs.Overlaps(taken) || !c.CPUs.IsSubsetOf(list) {
				t.Errorf("seed %d: %s on %s with %s: claim %+v beside %s", seed, list, machine, options, c, taken)
			}
			taken = taken.Union(c.CPUs)
		}
	}
}

// randomPods returns 60 pods with one or two requests, and a trace that removes half of them.
func randomPods(t *testing.T, r *rand.Rand) (*simulate.Objects, []simulate.Event) {
	t.Helper()
	var objects, trace strings.Builder
	for i := range 60 {
		fmt.Fprintf(&objects, "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c%d}\nspec:\n  devices:\n    requests:\n", i)
		for j := range 1 + r.IntN(2) {
			fmt.Fprintf(&objects, "    - {name: r%d, exactly: {deviceClassName: %s, count: %d, capacity: {requests: {%s: %dm}}}}\n", j, dra.Class, 1+r.IntN(20)/19, dra.Capacity, 500*r.IntN(8))
		}
		fmt.Fprintf(&objects, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p%d}\nspec:\n  resourceClaims: [{name: c, resourceClaimName: c%d}]\n  containers: [{name: a, image: x, resources: {claims: [{name: c}]}}]\n---\n", i, i)
	}
	for i, pod := range r.Perm(60)[:30] {
		fmt.Fprintf(&trace, "{\"at\":\"%ds\",\"remove\":\"p%d\"}\n", i, pod)
	}
	var all simulate.Objects
	for _, err := range all.Read("-", []byte(objects.String()), "default") {
		t.Fatal(err)
	}
	o, err := all.On("")
	if err != nil {
		t.Fatal(err)
	}
	events, err := simulate.ParseTrace([]byte(trace.String()), "default")
	if err != nil {
		t.Fatal(err)
	}
	return o, events
}
