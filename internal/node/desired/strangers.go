package desired

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// OwnedBy are the CPUs of a plan that somebody has for himself.
func OwnedBy(p pools.Plan) cpuset.Set {
	owned := p.Idle
	for _, a := range p.Assignments {
		owned = owned.Union(a.CPUs)
	}
	return owned
}
