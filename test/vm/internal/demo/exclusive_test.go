package demo

import (
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

func TestAligned(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*row)
		want   string // "" if it is
	}{
		"three cores":  {nil, ""},
		"odd":          {func(r *row) { r.kernel.Effective = cpuset.Range(10, 14); r.kernel.cores = 2 }, ""},
		"halves":       {func(r *row) { r.kernel.cores = 2 }, "runs on 10-15: whole cores: 2"},
		"two nodes":    {func(r *row) { r.kernel.nodes = cpuset.Of(0, 1) }, "NUMA nodes: 0-1"},
		"not its own":  {func(r *row) { r.Exclusive = false }, "want whole cores of one node, its own"},
		"another name": {func(r *row) { r.pod = "default/small-node" }, "pod large has no running container"},
		"the pause":    {func(r *row) { r.Name = "" }, "pod large has no running container"},
	} {
		t.Run(name, func(t *testing.T) {
			r := container("large-node", pools.Guaranteed, cpuset.Range(10, 15), func(r *row) { r.kernel.cores, r.kernel.nodes = 3, cpuset.Of(1) })
			if test.change != nil {
				test.change(&r)
			}
			err := aligned([]row{container("other-node", pools.Shared, cpuset.Of(2), nil), r}, large)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("aligned = %v; want %q", err, test.want)
			}
		})
	}
}

func TestWithout(t *testing.T) {
	pods := []manifest.Pod{exclusive("a", "1"), exclusive(large, "6"), exclusive("b", "1")}
	left := without(pods, large)
	if len(left) != 2 || left[0].Name != "a" || left[1].Name != "b" || pods[1].Name != large {
		t.Errorf("pods without large = %v; want a and b of %v", left, pods)
	}
}

// TestCompareUnit checks that a unit is a row like a container's, and that its values in the
// kernel are compared.
func TestCompareUnit(t *testing.T) {
	cpus := cpuset.Range(4, 5)
	plan := pools.Plan{Units: []pools.UnitPlan{{Name: unit, Pool: pools.Guaranteed, CPUs: cpus, Exclusive: true, Reason: pools.Reason{Text: "of its own"}}}}
	good := container("du", pools.Guaranteed, cpus, nil).kernel
	rows := compare(plan, map[string]view{unit: good})
	if err := disagreement(rows); err != nil {
		t.Error(err)
	}
	if got := table(rows); !strings.Contains(got, "\ndu.service  (unit)     guaranteed") {
		t.Errorf("table lacks the unit:\n%s", got)
	}
	if got := verdict(rows); !strings.Contains(got, "0 containers, 0 pause containers and 1 unit") {
		t.Errorf("verdict = %s; want 1 unit", got)
	}
	good.Effective = cpuset.Range(0, 15)
	if err := disagreement(compare(plan, map[string]view{unit: good})); err == nil || !strings.Contains(err.Error(), "du.service") {
		t.Errorf("disagreement = %v", err)
	}
}
