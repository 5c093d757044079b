package pools

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// Input is everything that a plan depends on. Build reads nothing else, and
// changes none of it.
type Input struct {
	Machine *allocate.Machine // made once of the topology, and Pools belong to it
	Pools   Pools
	Names   workload.Names
	Pods    []Pod
	// Previous holds the assignments that are in force, by pod and container
	// name. They are kept wherever the pools still allow it.
	Previous []Assignment
	// Claims are the ResourceClaims that have CPUs, or should get them. Each has a UID of its own.
	Claims []Claim
	// StaticPods are the static pods that may request a workload type. [Partition] lists the
	// namespaces of all other pods.
	StaticPods StaticPods
	// Held are the CPUs that the kubelet has allocated, with Pools.Kubelet: by pod and
	// container. Container is "" for the CPUs of a whole pod.
	Held []Assignment
	// Namespaces adds namespaces to the lists of [Partition].
	Namespaces NamespaceRights
	// Resting are CPUs of former owners that stay out of the shared pool if they came from
	// it. See [Plan.Resting].
	Resting cpuset.Set
	// Partitions reports that exclusive CPUs become cpuset partitions, in which load
	// balancing can be switched off. It affects only problems.
	Partitions bool
	Interrupts bool // owners can be free of interrupts. It affects only problems
}

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
	// default set. Package poolspec sets the CPUs outside partitions.
	Kubelet bool
	// Options are how exclusive CPUs are chosen. Overrides are the names of the
	// options that pods may choose for themselves.
	Options    allocate.Options
	Overrides  []string
	BindMemory bool       // Plans bind the memory of exclusive owners.
	PodLevel   PodLevel   // Rule for pods with pod-level resources.
	Mixed      Mixed      // Shared CPUs for exclusive containers: online CPUs only.
	Claims     ClaimPool  // CPUs of ResourceClaims. No other pool has them.
	Infra      string     // Type of the partition that all pause containers run in, "" if it does not exist.
	Units      []UnitSpec // Sorted by Name.
	Offline    cpuset.Set // Configured CPUs that the machine has but does not run at the moment. They are in no pool.
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

// QoS is a pod's quality-of-service class (KEP-753, pkg/apis/core/v1/helper/qos).
type QoS string

// The three classes of Kubernetes. A pod that was created over CRI outside
// the kubelet's tree has no class.
const (
	QoSGuaranteed QoS = "Guaranteed"
	QoSBurstable  QoS = "Burstable"
	QoSBestEffort QoS = "BestEffort"
	QoSNone       QoS = ""
)

// Pod holds the properties of a pod sandbox and its containers that a plan depends on.
type Pod struct {
	UID, Namespace, Name string
	QoS                  QoS
	// Annotations are the annotations at the creation of the sandbox: the node never
	// sees later changes of the API object.
	Annotations map[string]string
	CreatedAt   int64     // when the sandbox was created, in nanoseconds since the epoch; 0 means just now.
	Resources   Resources // pod's total as the kubelet set it for the sandbox; the zero value means unknown.
	Resized     bool      // Resources are the total of the last resize of the pod
	Gone        bool      // sandbox is no longer ready and no container runs in it: its CPUs are free
	// Unread reports that the pod exists, but that its status could not be read: QoS and
	// Resources are not valid. Recorded CPUs of the pod stay recorded, and it gets no
	// others.
	Unread bool
	// Settled reports that the pod has existed long enough for the creation of all its
	// containers. Then an annotation for a container that does not exist is an error.
	Settled    bool
	Containers []Container
}

// Kind distinguishes a pod's own container (pause) from the containers of its spec.
type Kind int

// The CRI does not tell init containers and sidecars from the others; see
// docs/explanation/assignments.md for how their CPUs are reused.
const (
	App   Kind = iota
	Infra      // the sandbox (pause) container
)

// InfraName is the name of the pause container, as CRI-O calls it. No container of a pod's
// spec has it: upper case is not allowed there.
const InfraName = "POD"

// ContainerState is a container's state as CRI reports it.
type ContainerState int

// States in the order in which a container goes through them.
const (
	Created ContainerState = iota
	Running
	Exited
)

// Container is one container of a pod.
type Container struct {
	ID, Name string
	Kind     Kind
	State    ContainerState
	// CreatedAt orders containers that compete for CPUs, in nanoseconds since
	// the epoch.
	CreatedAt int64
	// FinishedAt is when a container that has exited did so, in the same unit; 0
	// means unknown. A later container does not take over CPUs of one that ran at the same time.
	FinishedAt int64
	Resources  Resources
	// Nodes are the IDs of the NUMA nodes of the container's devices and memory, as
	// the kubelet chose them; empty means that there is no hint.
	Nodes cpuset.Set
	// Waiting reports that a request for Nodes is in progress. Until the answer arrives, the
	// container gets no exclusive CPUs, unless it has some already.
	Waiting bool
	// Devices reports that the container has CDI devices. The ResourceClaims of devices can add CPUs
	// to the quota of the container, but not to its shares.
	Devices bool
	Foreign *Foreign // set for a container that another manager of CPUs places; nil for all others
}

// Resources are the CPU resources of a container or a pod at its creation.
type Resources struct {
	Shares uint64 // CFS shares (milliCPU*1024/1000, 2..262144); 0 means unknown
	// Quota and Period are in microseconds; a quota of 0 or less means none.
	Quota, Period int64
}

// Key names an owner of CPUs over its restarts: a container, a pod, a unit or a part of a claim.
// With Container "" the owner is the pod: the CPUs are reserved for containers that do not exist
// yet. With PodUID "" Container is the name of a systemd unit. With Claim, the UID of a ResourceClaim,
// PodUID is "" and Container names the part of the claim.
type Key struct {
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
	Claim     string `json:"claim,omitzero"`
}

// Compare returns -1, 0 or 1 as k sorts before, with or after o: units, then pods, then claims.
func (k Key) Compare(o Key) int {
	if k.Claim != o.Claim {
		return strings.Compare(k.Claim, o.Claim)
	}
	if k.PodUID != o.PodUID {
		return strings.Compare(k.PodUID, o.PodUID)
	}
	return strings.Compare(k.Container, o.Container)
}

// IsUnit reports whether k names a systemd unit.
func (k Key) IsUnit() bool { return k.PodUID == "" && k.Claim == "" }

// Assignment is a set of exclusive CPUs held by an owner.
type Assignment struct {
	Key
	CPUs cpuset.Set `json:"cpus"`
	// Away are CPUs of the owner that are offline. No other owner gets them, and they
	// come back to it when they are online again, unless it has replacements.
	Away cpuset.Set `json:"away,omitzero"`
	// Sharers are the containers without exclusive CPUs in a pod with pod-level
	// resources, by name and sorted. Only the assignment of a pod (Container "") has them, and
	// it can be without CPUs then.
	Sharers []string `json:"sharers,omitempty"`
	Owners  []string `json:"owners,omitempty"` // other containers of such a pod, by name and sorted
	Total   int      `json:"total,omitempty"`  // number of exclusive CPUs of such a pod; 0 if its containers share no CPUs
	// Part reports that the request of the container has been below the total of its pod. A
	// container without resources in a pod with pod-level resources always has the total.
	Part bool `json:"part,omitempty"`
}

// Equal reports whether a and b record the same.
func (a Assignment) Equal(b Assignment) bool {
	return a.Key == b.Key && a.Total == b.Total && a.Part == b.Part && a.CPUs.Equal(b.CPUs) && a.Away.Equal(b.Away) && slices.Equal(a.Sharers, b.Sharers) &&
		slices.Equal(a.Owners, b.Owners)
}

// Assigned returns the CPUs of an owner, with its offline CPUs.
func Assigned(all []Assignment, key Key) cpuset.Set {
	for _, a := range all {
		if a.Key == key {
			return a.CPUs.Union(a.Away)
		}
	}
	return cpuset.Set{}
}
