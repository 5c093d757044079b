package desired

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Early returns a plan for containers that start before the inventory is complete. Previous
// are the exclusive CPUs of all owners, also of those that the inventory lacks. A container
// gets the CPUs of its pool without them. A container that needs exclusive CPUs gets the
// CPUs of the shared pool, and its placement still states that it is exclusive or refused. A placement
// without CPUs means that owners may have all CPUs of its pool.
func (in *Input) Early() pools.Plan {
	var held cpuset.Set
	for _, a := range in.Previous {
		held = held.Union(a.CPUs, a.Away)
	}
	plan := in.Build(in.plannerInput())
	plan.Shared = plan.Shared.Difference(held)
	for _, c := range plan.Containers() {
		if c.Pool == pools.Guaranteed {
			c.CPUs, c.Mixed, c.Mems, c.Unlimited = plan.Shared, cpuset.Set{}, cpuset.Set{}, false
		}
		c.CPUs = c.CPUs.Difference(held)
	}
	return plan
}
