package pools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Spec is the configuration of the pools before it is resolved for a machine.
type Spec struct {
	Partitions []PartitionSpec // management pools, one for each workload type
	Shared     *cpuset.Set     // CPUs of the shared pool; nil stands for all online CPUs that no other list names
	// StrictReservation keeps the shared pool off the CPUs of partitions. Without
	// it the pool extends over them, as with the kubelet; exclusive CPUs never
	// come from them.
	StrictReservation bool
	Guaranteed        GuaranteedSpec
	Units             []UnitSpec // systemd units that are placed like containers
	// Infra is where pause containers run: the workload type of a partition, or "" for
	// the shared pool. Then pods of a workload type have theirs in their pod's partition.
	Infra string `json:",omitzero"`
}

// GuaranteedSpec configures exclusive CPUs: which CPUs can be exclusive, and how they
// are chosen. Without CPUs and FromShared no container gets exclusive CPUs.
type GuaranteedSpec struct {
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
	// set; see [Pools].
	Options   allocate.Options
	Overrides []string
	// BindMemory binds memory to the NUMA nodes of exclusive CPUs.
	BindMemory bool
	// PodLevel selects what pods with pod-level resources get.
	PodLevel PodLevel
	Mixed    Mixed     `json:",omitzero"` // shared CPUs for containers that have exclusive CPUs
	Claims   ClaimSpec `json:",omitzero"` // CPUs of ResourceClaims
}

// UnitSpec is a systemd unit with exclusive CPUs or a pool to run in: either
// CPUs or Pool is set.
type UnitSpec struct {
	Name string // a full unit name, like du.service or radio.slice
	CPUs int    // number of exclusive CPUs of the unit, above 0
	Pool string // "shared" or the workload type of a partition
}

// PartitionSpec is the management pool of one workload type.
type PartitionSpec struct {
	Type string // workload type, a DNS label (RFC 1123)
	// All stands for all online CPUs but the guaranteed ones: the type is known
	// on this node, without exclusive CPUs. CPUs must be empty then.
	All  bool
	CPUs cpuset.Set
	// Auto stands for the first cores of the machine: see [Spec.On]. CPUs must be empty
	// then, or what On returned.
	Auto bool `json:",omitzero"`
	// Namespaces are those whose pods may ask for the type, static ones aside: see
	// [StaticPods]. Annotations can be forged, so the default is none.
	Namespaces []string
}

// Pools are the CPU pools of a machine: online CPUs only. A fixed list of guaranteed CPUs
// overlaps no other pool. Shared and the partitions overlap only
// if a partition takes all, and without a strict reservation.
type Pools struct {
	Partitions []Partition // sorted by Type
	// Shared is the whole shared pool, and never empty. With FromShared some of it
	// may belong to containers at the moment: see [Plan.Shared].
	Shared cpuset.Set
	// Guaranteed are the CPUs that can become exclusive: the fixed list, or with
	// FromShared the part of Shared that owners can get. Shared always keeps Floor CPUs,
	// at least 1. Guaranteed is empty if no container can get exclusive CPUs.
	Guaranteed cpuset.Set
	FromShared bool
	Floor      int
	// Kubelet reports that the kubelet allocates CPUs to all containers, except in the pods
	// of partitions: see [Input].Held. Guaranteed is empty then. Shared is the kubelet's
	// default set; Resolve returns the CPUs outside partitions for it.
	Kubelet bool
	// Options are how exclusive CPUs are chosen. Overrides are the names of the
	// options that pods may choose for themselves.
	Options    allocate.Options
	Overrides  []string
	BindMemory bool // plans bind the memory of exclusive owners
	// PodLevel selects what pods with pod-level resources get.
	PodLevel PodLevel
	// Mixed configures shared CPUs for exclusive containers: online CPUs only.
	Mixed   Mixed
	Claims  ClaimPool  // CPUs of ResourceClaims, which no other pool has
	Infra   string     // type of the partition that all pause containers run in; "" if it does not exist.
	Units   []UnitSpec // sorted by Name
	Offline cpuset.Set // configured CPUs that the machine has but does not run at the moment. They are in no pool
	// Away are the CPUs that would be in Guaranteed if they were online. No container
	// gets them, and an owner that had some of them gets them back; see
	// [Assignment].
	Away cpuset.Set
}

// Partition is the management pool of one workload type. CPUs is never empty.
type Partition struct {
	Type       string
	CPUs       cpuset.Set
	Namespaces []string
}

// exclusive reports whether containers can have exclusive CPUs, now or when offline CPUs
// are online again.
func (p *Pools) exclusive() bool { return !p.Guaranteed.IsEmpty() || !p.Away.IsEmpty() }

// floor is how many CPUs the shared pool keeps.
func (p *Pools) floor() int { return max(p.Floor, 1) }

// partition returns the partition of a workload type; callers must not change it.
func (p *Pools) partition(typ string) (*Partition, bool) {
	i, ok := slices.BinarySearchFunc(p.Partitions, typ, func(p Partition, typ string) int {
		return cmp.Compare(p.Type, typ)
	})
	if !ok {
		return nil, false
	}
	return &p.Partitions[i], true
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
