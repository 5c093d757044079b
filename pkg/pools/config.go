package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// UnitSpec is a systemd unit with exclusive CPUs or a pool to run in: either
// CPUs or Pool is set.
type UnitSpec struct {
	Name string // a full unit name, like du.service or radio.slice
	CPUs int    // number of exclusive CPUs of the unit, above 0
	Pool string // "shared" or the workload type of a partition
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
