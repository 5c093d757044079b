// Package capacity computes the extended resources of a node: the amounts that the daemon
// advertises while no pod uses CPUs without a request. It has no state.
package capacity

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Pool is a pool whose size the scheduler counts as an extended resource.
type Pool struct {
	// Resource is the full name of the resource.
	Resource string
	// Milli is the pool's size in thousandths of a CPU.
	Milli int64
}

// Layout holds the CPUs of the pools of a node.
type Layout struct {
	// Online holds the online CPUs of the machine.
	Online cpuset.Set
	// Types are the workload types that have a management pool.
	Types []string
	// Shared and Guaranteed hold the CPUs of the pools.
	Shared, Guaranteed cpuset.Set
	// HasGuaranteed is true with a guaranteed pool, also while all of its CPUs are offline.
	HasGuaranteed bool
	// Taken holds CPUs that requests for the resources cannot use: of exclusive units and of ResourceClaims, and
	// CPUs that the kernel holds back.
	Taken cpuset.Set
}

// Of returns the layout of a node with a configuration, its pools on the machine and a plan. lost
// holds online CPUs that are in no cgroup. No pool contains the list of guaranteed.claims, and the CPUs that claims
// have of another list after a change of the configuration count as taken.
func Of(configured *poolspec.Spec, p *pools.Pools, plan *pools.Plan, online, lost cpuset.Set) Layout {
	l := Layout{
		Online: online, Shared: p.Shared, Guaranteed: p.Guaranteed,
		HasGuaranteed: !configured.Guaranteed.CPUs.IsEmpty(), Taken: lost.Union(UnitCPUs(plan), claimCPUs(plan)),
	}
	for _, part := range configured.Partitions {
		l.Types = append(l.Types, part.Type)
	}
	return l
}

// UnitCPUs returns the exclusive CPUs of units in a plan.
func UnitCPUs(plan *pools.Plan) (cpus cpuset.Set) {
	for _, u := range plan.Units {
		if u.Exclusive {
			cpus = cpus.Union(u.CPUs)
		}
	}
	return cpus
}

// claimCPUs returns the CPUs of ResourceClaims in a plan.
func claimCPUs(plan *pools.Plan) (cpus cpuset.Set) {
	for i := range plan.Claims {
		cpus = cpus.Union(plan.Claims[i].CPUs)
	}
	return cpus
}

// Pools returns the resources of the node. The cores of a workload type count the whole
// machine, because requests of management pods were never compared with their pool
// (openshift/enhancements, management-workload-partitioning).
func (l Layout) Pools(names workload.Names) []Pool {
	milli := func(cpus cpuset.Set) int64 { return int64(cpus.Len()) * 1000 }
	all := []Pool{{names.SharedResource(), milli(l.Shared.Difference(l.Taken))}}
	if l.HasGuaranteed {
		all = append(all, Pool{names.GuaranteedResource(), milli(l.Guaranteed.Difference(l.Taken))})
	}
	for _, t := range l.Types {
		all = append(all, Pool{names.CoresResource(t), milli(l.Online)})
	}
	return all
}
