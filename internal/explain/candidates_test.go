package explain

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestCandidatesByPart checks the choice of parts: NUMA nodes, or the caches or dies of a single
// node, or nothing.
func TestCandidatesByPart(t *testing.T) {
	group := func(first, last int) topology.Group {
		return topology.Group{ID: first, CPUs: cpuset.Range(first, last)}
	}
	halves, whole := []topology.Group{group(0, 3), group(4, 7)}, []topology.Group{group(0, 7)}
	for _, test := range []struct {
		name      string
		nodes     []topology.Node
		l3s, dies []topology.Group
		want      string
	}{
		{"two nodes", []topology.Node{{ID: 0, CPUs: cpuset.Range(0, 3)}, {ID: 1, CPUs: cpuset.Range(4, 7)}}, whole, whole, "NUMA node 0 (0): 2-3, NUMA node 1 (1): 4-7"},
		{"two caches", []topology.Node{{CPUs: cpuset.Range(0, 7)}}, halves, whole, "last-level cache of CPUs 0-3 (0): 2-3, last-level cache of CPUs 4-7 (0): 4-7"},
		{"two dies", []topology.Node{{CPUs: cpuset.Range(0, 7)}}, whole, halves, "die of CPUs 0-3 (0): 2-3, die of CPUs 4-7 (0): 4-7"},
		{"all one", []topology.Node{{CPUs: cpuset.Range(0, 7)}}, whole, whole, ""},
	} {
		top := &topology.Topology{Online: cpuset.Range(0, 7), Nodes: test.nodes, L3s: test.l3s, Dies: test.dies, Packages: whole}
		for i := range 8 {
			top.Cores = append(top.Cores, group(i, i))
			top.CPUs = append(top.CPUs, topology.CPU{ID: i})
		}
		in := &pools.Input{Machine: allocate.New(top), Pools: pools.Pools{Guaranteed: cpuset.Range(2, 7)}}
		plan := &pools.Plan{Free: cpuset.Range(2, 7)}
		var got []string
		for _, c := range candidates(in, plan, 3, &allocate.Options{}, cpuset.Set{}, cpuset.Set{}) {
			got = append(got, c.Part+" ("+string(rune('0'+c.Node))+"): "+c.Free.String())
			if refused := c.Free.Len() < 3; refused != strings.HasPrefix(c.Why, "rejected: ") || refused != c.Would.IsEmpty() {
				t.Errorf("%s: %s with %s free gives %q: %s", test.name, c.Part, c.Free, c.Would, c.Why)
			}
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: the candidates are %s; want %s", test.name, text, test.want)
		}
	}
}
