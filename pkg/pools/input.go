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
	Machine *allocate.Machine // made once of the topology, and Pools are what Spec.Resolve or Spec.Adapt made of it
	Pools   Pools
	Names   workload.Names
	Pods    []Pod
	// Previous holds the assignments that are in force, by pod and container
	// name. They are kept wherever the pools still allow it.
	Previous []Assignment
	// StaticPods says which static pods may ask for a workload type. Those of all others
	// are in the lists of [Partition].
	StaticPods StaticPods
	// Held are the CPUs that the kubelet has given away, with Pools.Kubelet: by pod and
	// container, and with Container "" those of a whole pod.
	Held []Assignment
	// Namespaces says which namespaces may, beside those in the lists of [Partition].
	Namespaces NamespaceRights
	// Resting are CPUs that owners had and that are to stay out of the shared pool,
	// where they have come from there. See [Plan.Resting].
	Resting cpuset.Set
	// Partitions says that exclusive CPUs become cpuset partitions, in which load
	// balancing can be switched off. It changes nothing but what is reported.
	Partitions bool
	Interrupts bool // owners can be free of interrupts. It changes nothing but what is reported
}

// QoS is a pod's quality-of-service class (KEP-753, pkg/apis/core/v1/helper/qos).
type QoS string

// The three classes of Kubernetes. A pod that was made over CRI outside
// the kubelet's tree has none.
const (
	QoSGuaranteed QoS = "Guaranteed"
	QoSBurstable  QoS = "Burstable"
	QoSBestEffort QoS = "BestEffort"
	QoSNone       QoS = ""
)

// Pod is a pod sandbox with its containers, as far as the plan depends on it.
type Pod struct {
	UID, Namespace, Name string
	QoS                  QoS
	// Annotations are those of the sandbox's creation: later changes of the
	// API object are never seen by the node.
	Annotations map[string]string
	CreatedAt   int64     // when the sandbox was made, in nanoseconds since the epoch; 0 means just now
	Resources   Resources // pod's total as the kubelet gave it to the sandbox; the zero value means unknown
	Gone        bool      // sandbox is not ready any more and nothing runs in it: its CPUs are free
	// Unread says that the pod is there and what it is could not be read: QoS and
	// Resources mean nothing. What is recorded for it stays recorded, and it gets
	// nothing new.
	Unread bool
	// Settled says that the pod has existed long enough for all its containers
	// to have been created, so that an annotation for a container that does not
	// exist is an error and not a matter of time.
	Settled    bool
	Containers []Container
}

// Kind tells a pod's own container (pause) from those of the pod's spec.
type Kind int

// The CRI does not tell init containers and sidecars from the others; see
// docs/explanation/assignments.md for how their CPUs are reused.
const (
	App   Kind = iota
	Infra      // the sandbox (pause) container
)

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
	// means unknown. It tells who cannot have been an init container.
	FinishedAt int64
	Resources  Resources
	// Nodes are the IDs of the NUMA nodes of the container's devices and memory, as
	// the kubelet chose them; empty means that there is no hint.
	Nodes cpuset.Set
	// Waiting says that Nodes are being asked for. Until they are known the
	// container gets no CPUs of its own, unless it has some already.
	Waiting bool
	Foreign *Foreign // set for a container that another manager of CPUs places; nil for all others
}

// Resources are the CPU resources of a container or a pod at its creation.
type Resources struct {
	Shares uint64 // CFS shares (milliCPU*1024/1000, 2..262144); 0 means unknown
	// Quota and Period are in microseconds; a quota of 0 or less means none.
	Quota, Period int64
}

// Key names an owner of CPUs over its restarts: a container; with Container "",
// the pod, for what is reserved for those of its containers that are not there
// yet; with PodUID "", the systemd unit that Container names.
type Key struct {
	PodUID    string `json:"podUID"`
	Container string `json:"container"`
}

// Compare returns -1, 0 or 1 as k sorts before, with or after o: by pod, then by container.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.PodUID, o.PodUID), strings.Compare(k.Container, o.Container))
}

// Assignment is a set of exclusive CPUs held by an owner.
type Assignment struct {
	Key  Key        `json:"key"`
	CPUs cpuset.Set `json:"cpus"`
	// Away are CPUs of the owner that are offline. Nobody else gets them, and they
	// come back to it when they are online again, unless it has got others instead.
	Away cpuset.Set `json:"away"`
	// Sharers are the containers without exclusive CPUs in a pod with pod-level
	// resources, by name and sorted. Only the assignment of a pod (Container "") has them, and
	// it can be without CPUs then.
	Sharers []string `json:"sharers"`
	Owners  []string `json:"owners"` // other containers of such a pod, by name and sorted
	Total   int      `json:"total"`  // number of exclusive CPUs of such a pod; 0 if its containers share no CPUs
}

// Equal reports whether a and b record the same.
func (a Assignment) Equal(b Assignment) bool {
	return a.Key == b.Key && a.Total == b.Total && a.CPUs.Equal(b.CPUs) && a.Away.Equal(b.Away) && slices.Equal(a.Sharers, b.Sharers) &&
		slices.Equal(a.Owners, b.Owners)
}
