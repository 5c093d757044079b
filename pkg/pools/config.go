package pools

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Spec is what an operator asks for, before it is held against a machine.
type Spec struct {
	// Partitions are the management pools, one for each workload type.
	Partitions []PartitionSpec
	// Shared are the CPUs of the shared pool; nil stands for all online CPUs that
	// no other list names.
	Shared *cpuset.Set
	// Guaranteed are the CPUs that containers can have to themselves; the empty
	// set means that no container gets CPUs of its own.
	Guaranteed cpuset.Set
}

// PartitionSpec is the management pool of one workload type.
type PartitionSpec struct {
	// Type is the workload type, a DNS label (RFC 1123).
	Type string
	// All stands for all online CPUs but the guaranteed ones: the type is known
	// on this node, without CPUs of its own. CPUs must be empty then.
	All  bool
	CPUs cpuset.Set
	// Namespaces are those whose pods may ask for the type. Annotations can be
	// forged, so the default is none.
	Namespaces []string
}

// Pools are the CPU pools of a machine: online CPUs only. Those of Guaranteed are
// in no other pool; Shared and the partitions overlap only where a partition
// takes all.
type Pools struct {
	// Partitions is sorted by Type.
	Partitions []Partition
	// Shared is never empty.
	Shared cpuset.Set
	// Guaranteed is empty when no container gets CPUs of its own.
	Guaranteed cpuset.Set
	// Offline are configured CPUs that the machine has but does not run at the
	// moment. They are in no pool.
	Offline cpuset.Set
}

// Partition is the management pool of one workload type. CPUs is never empty.
type Partition struct {
	Type       string
	CPUs       cpuset.Set
	Namespaces []string
}

// partition returns the partition of a workload type.
func (p Pools) partition(typ string) (Partition, bool) {
	i, ok := slices.BinarySearchFunc(p.Partitions, typ, func(p Partition, typ string) int {
		return cmp.Compare(p.Type, typ)
	})
	if !ok {
		return Partition{}, false
	}
	return p.Partitions[i], true
}

// FieldError is one thing that is wrong with a Spec.
type FieldError struct {
	// Field is the path of the key, like "partitions[0].cpus".
	Field string
	// Value is what the key has, or the part of it that is wrong.
	Value string
	// Reason says what is wrong and what to do.
	Reason string
}

// Error names key, value and reason.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: %q: %s", e.Field, e.Value, e.Reason)
}
