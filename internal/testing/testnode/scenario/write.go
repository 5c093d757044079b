package scenario

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Write is what a ForeignWrite step makes: somebody else's, to a file of a cgroup.
type Write struct {
	Path        cgroup.Path
	File, Value string
}

// WriteOf picks a cgroup among targets that have CPUs or a weight, and another value
// for one of these, CPUs among those of the machine. It is false when there is none.
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
