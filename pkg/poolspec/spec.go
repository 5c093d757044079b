// Package poolspec holds the configuration of CPU pools, and checks it against a machine.
//
// [Spec.Resolve] returns the pools of pkg/pools for a machine, or all errors of the configuration.
// [Spec.Adapt] changes the configuration for another machine, and returns the changes. Both are
// functions from data to data.
package poolspec

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
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
	Options   allocate.Options
	Overrides []string
	// BindMemory binds memory to the NUMA nodes of exclusive CPUs.
	BindMemory bool
	// PodLevel selects what pods with pod-level resources get.
	PodLevel pools.PodLevel
	Mixed    pools.Mixed `json:",omitzero"` // shared CPUs for containers that have exclusive CPUs
	Claims   Claims      `json:",omitzero"` // CPUs of ResourceClaims
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
	// Namespaces are those whose pods may ask for the type, static ones aside: see
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
	Field string // path of the key, like "partitions[0].cpus"
	Value string // what the key has, or the part of it that is wrong
	// Reason states the error and its remedy.
	Reason string
}

// Error names key, value and reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
}
