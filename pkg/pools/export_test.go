package pools

import (
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Allocator lets benchmarks take CPUs without the plan around it.
type Allocator struct {
	m    *allocate.Machine
	free cpuset.Set
}

// NewAllocator is ready to take CPUs of free.
func NewAllocator(t *topology.Topology, free cpuset.Set) *Allocator {
	return &Allocator{allocate.New(t), free}
}

// Allocate takes n CPUs and leaves the allocator as it is.
func (a *Allocator) Allocate(n int) cpuset.Set {
	cpus, _ := a.m.Supply(a.free).Take(allocate.Request{CPUs: n})
	return cpus
}
