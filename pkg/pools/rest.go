package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// resting returns the free CPUs that stay out of the shared pool.
func resting(in *Input, free cpuset.Set, assigned []claim) cpuset.Set {
	owned := slices.ContainsFunc(assigned, func(c claim) bool { return !c.cpus.IsEmpty() })
	if !in.Pools.FromShared || !owned {
		return cpuset.Set{}
	}
	shared := in.Pools.Shared.Difference(in.Pools.Guaranteed.Difference(free))
	return in.Resting.Intersection(free).Take(max(shared.Len()-in.Pools.floor(), 0))
}
