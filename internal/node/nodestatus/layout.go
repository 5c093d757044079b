package nodestatus

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Layout is what CPUs the pools of a node have.
type Layout struct {
	// Online are all CPUs that the machine has now.
	Online cpuset.Set
	// Types are the workload types that have a management pool.
	Types []string
	// Shared and Guaranteed are the pools; a pool that is configured keeps its
	// resource while all of its CPUs are offline.
	Shared, Guaranteed cpuset.Set
	// HasGuaranteed says that a guaranteed pool is configured; one that is carved out
	// of the shared pool is counted there.
	HasGuaranteed bool
	// Taken is nothing for pods: what units own, and what the kernel has lost.
	Taken cpuset.Set
}

// Pools are the resources that the node has. Cores of a workload type are those of the
// whole host, since what management pods ask for was never measured against their pool
// (enhancements: management-workload-partitioning).
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
