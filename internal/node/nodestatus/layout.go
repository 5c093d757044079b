package nodestatus

import (
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Layout holds the CPUs of the pools of a node.
type Layout struct {
	// Online holds the online CPUs of the machine.
	Online cpuset.Set
	// Types are the workload types that have a management pool.
	Types []string
	// Shared and Guaranteed hold the CPUs of the pools.
	Shared, Guaranteed cpuset.Set
	// HasGuaranteed is true if a guaranteed pool is configured. Its resource stays while all
	// of its CPUs are offline.
	HasGuaranteed bool
	// Taken holds CPUs that pods cannot use: CPUs of exclusive units, and CPUs that the kernel
	// does not release.
	Taken cpuset.Set
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
