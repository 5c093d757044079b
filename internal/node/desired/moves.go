package desired

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Fragments is what there is to be said of how owners lie after a plan.
func (s *Input) Fragments(plan pools.Plan) defrag.Input {
	return defrag.Input{Machine: s.Settings.Machine, Pool: s.Settings.Pools.Guaranteed, Owners: pools.Owners(s.input(), plan)}
}

// Assigned returns what an owner has, and what is offline of it.
func Assigned(all []pools.Assignment, key pools.Key) cpuset.Set {
	for _, a := range all {
		if a.Key == key {
			return a.CPUs.Union(a.Away)
		}
	}
	return cpuset.Set{}
}
