// Package poolspec holds the configuration of CPU pools, and checks it against a machine.
//
// [Spec.Resolve] returns the pools of pkg/pools for a machine, or all errors of the configuration.
// [Spec.Adapt] returns pools for a machine that the configuration does not fit, and an error for each
// part that it left out. Both are functions from data to data.
package poolspec

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Spec is the configuration of the pools before it is resolved for a machine.
type Spec struct {
	Partitions []Partition // management pools, one for each workload type
	Shared     *cpuset.Set // CPUs of the shared pool; nil stands for all online CPUs that no other list names
	// StrictReservation keeps the shared pool off the CPUs of partitions. Without
	// it the pool extends over them, as with the kubelet; exclusive CPUs never
	// come from them.
	StrictReservation bool
	Guaranteed        Guaranteed
	Units             []pools.UnitSpec // systemd units that are placed like containers
	// Infra is where pause containers run: the workload type of a partition, or "" for
	// the shared pool. Then pods of a workload type have theirs in their pod's partition.
	Infra string `json:",omitzero"`
}

// Guaranteed configures exclusive CPUs: which CPUs can be exclusive, and how they
// are chosen. Without CPUs and FromShared no container gets exclusive CPUs.
type Guaranteed struct {
	CPUs cpuset.Set // a fixed list. It must be empty with FromShared
	// FromShared takes CPUs out of the shared pool, container by container, for as
	// long as they are needed. Shared keeps at least Floor CPUs, or 1 if Floor is
	// 0; Floor must be 0 without FromShared.
	FromShared bool
	Floor      int
	// FloorPercent, 1 to 99, replaces Floor by a part of the online CPUs of Shared, rounded up.
	// A pool that is too small to give a CPU away is no error then.
	FloorPercent int `json:",omitzero"`
	// Kubelet leaves the CPUs of all containers to the kubelet, except in the pods of
	// partitions. Then all other fields of this struct have no effect.
	Kubelet bool
	// Options define how CPUs are chosen. Overrides are the names of the options that pods may
	// set; see [pools.Pools].
	Options    allocate.Options
	Overrides  []string
	BindMemory bool           // memory is bound to the NUMA nodes of exclusive CPUs
	PodLevel   pools.PodLevel // what pods with pod-level resources get
	Mixed      pools.Mixed    `json:",omitzero"` // shared CPUs for containers that have exclusive CPUs
	Claims     Claims         `json:",omitzero"` // CPUs of ResourceClaims
}

// Partition is the management pool of one workload type.
type Partition struct {
	Type string // workload type, a DNS label (RFC 1123)
	// All stands for all online CPUs but the guaranteed ones: the type is known
	// on this node, without exclusive CPUs. CPUs must be empty then.
	All  bool
	CPUs cpuset.Set
	// Auto stands for the first cores of the machine: see [Spec.On]. CPUs must be empty
	// then, or what On returned.
	Auto bool `json:",omitzero"`
	// Namespaces have pods that may ask for the type. Static pods may do so in any namespace: see
	// [pools.StaticPods]. Annotations can be forged, so the default is none.
	Namespaces []string
}

// Claims configures the CPUs of ResourceClaims.
type Claims struct {
	CPUs cpuset.Set // a fixed list, disjoint from all other pools; empty without claims
	// Lend lets the shared pool run on the CPUs that no claim has at the moment. Without it,
	// these CPUs are unused.
	Lend bool
}

// FieldError is one thing that is wrong with a Spec.
type FieldError struct {
	Field  string // path of the key, like "partitions[0].cpus"
	Value  string // what the key has, or the part of it that is wrong
	Reason string // the error and its remedy
}

// Error names key, value and reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
}

// On returns s with the CPUs of the partitions that have Auto. [Spec.Resolve] and [Spec.Adapt]
// call it. A caller that resolves s again after CPUs went offline keeps the result of the first
// call: otherwise the partition would move onto CPUs that became exclusive since.
//
// A partition with Auto gets 1 CPU of up to 3 online ones, 2 of up to 31, 4 of up to 255 and 8 of
// more. It gets whole cores if they are at most a quarter of the machine, and cores of the first
// NUMA node first. It gets no CPU of another list. It gets CPUs that the kernel isolates only if
// no other CPUs are left.
func (s Spec) On(t *topology.Topology) Spec {
	isAuto := func(p Partition) bool { return p.Auto && p.CPUs.IsEmpty() }
	if !slices.ContainsFunc(s.Partitions, isAuto) {
		return s
	}
	free := t.Online.Difference(s.Guaranteed.Mixed.CPUs)
	for _, l := range new(resolver).lists(&s) {
		free = free.Difference(*l.cpus)
	}
	s.Partitions = slices.Clone(s.Partitions)
	for i := range s.Partitions {
		if isAuto(s.Partitions[i]) {
			s.Partitions[i].CPUs = s.firstCores(t, free)
			free = free.Difference(s.Partitions[i].CPUs)
		}
	}
	return s
}

// firstCores returns the CPUs of a partition with Auto, of those in free.
func (s Spec) firstCores(t *topology.Topology, free cpuset.Set) cpuset.Set {
	limit := free.Len()
	if s.Shared == nil {
		limit-- // the shared pool has the rest
	}
	if others := free.Difference(t.Isolated); !others.IsEmpty() {
		free = others
	}
	want := min(autoSize(t.Online.Len()), limit)
	var got cpuset.Set
	for _, core := range coresByNode(t) {
		more := got.Union(core.CPUs)
		isSmall := more.Len() <= want || 4*more.Len() <= t.Online.Len()
		if got.Len() < want && core.CPUs.IsSubsetOf(free) && more.Len() <= limit && isSmall {
			got = more
		}
	}
	return got.Union(free.Difference(got).Take(want - got.Len()))
}

// autoSize returns the number of CPUs of a partition with Auto on a machine with n online CPUs,
// before whole cores are counted.
func autoSize(n int) int {
	switch {
	case n < 4:
		return 1
	case n < 32:
		return 2
	case n < 256:
		return 4
	}
	return 8
}

// coresByNode returns the cores of the machine. The NUMA node of the first core comes first.
func coresByNode(t *topology.Topology) []topology.Group {
	isNear := func(core topology.Group) bool {
		a, _ := t.CPU(t.Cores[0].CPUs.First())
		b, _ := t.CPU(core.CPUs.First())
		return a.Node == b.Node
	}
	far := slices.DeleteFunc(slices.Clone(t.Cores), isNear)
	near := slices.DeleteFunc(slices.Clone(t.Cores), func(core topology.Group) bool { return !isNear(core) })
	return append(near, far...)
}
