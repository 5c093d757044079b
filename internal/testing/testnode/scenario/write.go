package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Write is the external write of a ForeignWrite step.
type Write struct {
	Path        cgroup.Path
	File, Value string
}

// WriteOf returns a write of a different value to the CPUs or the weight of a random target.
// machine holds the CPUs to choose from. It returns false if no target has CPUs or a weight.
func WriteOf(s Step, targets []cgroup.Target, machine cpuset.Set) (Write, bool) {
	targets = slices.DeleteFunc(slices.Clone(targets), func(t cgroup.Target) bool { return t.CPUs.IsEmpty() && t.Weight == 0 })
	if len(targets) == 0 {
		return Write{}, false
	}
	slices.SortFunc(targets, func(a, b cgroup.Target) int { return cmp.Compare(a.Path, b.Path) })
	r := rand.New(rand.NewPCG(s.Pick, 0)) //nolint:gosec // to be repeatable is the point
	t := targets[r.IntN(len(targets))]
	if t.CPUs.IsEmpty() || t.Weight != 0 && r.IntN(2) == 0 {
		return Write{t.Path, cgroup.FileWeight, fmt.Sprint(t.Weight%10_000 + 1)}, true
	}
	for {
		var cpus []int
		for cpu := range machine.All() {
			if r.IntN(2) == 0 {
				cpus = append(cpus, cpu)
			}
		}
		if set := cpuset.Of(cpus...); !set.IsEmpty() && !set.Equal(t.CPUs) {
			return Write{t.Path, cgroup.FileCPUs, set.String()}, true
		}
	}
}
