package preview

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Bounds of the lists in Preview.Changes: a node has hundreds of containers.
const (
	maxChanges = 8 // lines
	maxNamed   = 5 // containers of a line
)

type change struct{ from, to string }

// changes returns a line for each pair of present and planned CPUs, most containers first.
func (s *survey) changes() (lines []string) {
	moved := s.moved()
	sorted := slices.SortedFunc(maps.Keys(moved), func(a, b change) int {
		return cmp.Or(cmp.Compare(len(moved[b]), len(moved[a])), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	rest := 0
	for i, c := range sorted {
		names := moved[c]
		if i >= maxChanges {
			rest += len(names)
			continue
		}
		lines = append(lines, fmt.Sprintf("CPUs %s become %s for %s: %s", c.from, c.to, layout.Count(len(names), "container"), layout.Few(names, maxNamed)))
	}
	if rest > 0 {
		lines = append(lines, "other CPUs change for "+layout.Count(rest, "container"))
	}
	return lines
}

func (s *survey) moved() map[change][]string {
	planned := make(map[string]cpuset.Set)
	for _, t := range s.want {
		if t.Container != "" && !t.CPUs.IsEmpty() {
			planned[t.Container] = t.CPUs
		}
	}
	moved := make(map[change][]string)
	for pod, c := range s.Plan.Containers() {
		cpus, isPlanned := planned[c.ID]
		if !isPlanned || c.Kind == pools.Infra || c.State != pools.Running {
			continue
		}
		now, err := s.cgroups.State(s.input.Objects.CgroupOf(c))
		if err != nil || now.Effective.Equal(cpus) {
			continue // a cgroup that cannot be read is in Preview.Unread
		}
		to := change{now.Effective.String(), cpus.String()}
		moved[to] = append(moved[to], pod.Namespace+"/"+pod.Name+"/"+c.Name)
	}
	return moved
}
