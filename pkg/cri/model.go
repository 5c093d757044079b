package cri

import (
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Pod is a pod sandbox as the runtime knows it.
type Pod struct {
	ID                   string // sandbox id
	UID, Namespace, Name string
	Ready                bool
	CreatedAt            time.Time
	// Annotations are the sandbox's annotations at its creation that the user of the client keeps.
	// A later change of the API object never reaches the runtime.
	Annotations    map[string]string
	RuntimeHandler string

	Detailed bool // fields below are set (PodStatus); List leaves them zero
	// CgroupParent is the kubelet's cgroup_parent: a slice name with the systemd
	// driver, otherwise a path below the cgroup mount.
	CgroupParent string
	// CgroupsPath is linux.cgroupsPath in the OCI spec of the sandbox (pause)
	// container; empty if the sandbox has no cgroup.
	CgroupsPath string
	// Resources are the pod's total over all its containers, overhead not
	// included (linux.resources of the sandbox configuration, since Kubernetes
	// 1.23; KEP-1287 updates it). Zero means unknown.
	Resources Resources
	Resized   bool // Resources are of the last resize of the pod (containerd 2.2 and later)
	PID       int  // sandbox process in the runtime's PID namespace, 0 if none runs
}

// Container is a container of a pod as the runtime knows it. Sandbox (pause)
// containers are not among them; see Pod.
type Container struct {
	ID        string
	PodID     string // sandbox id
	Name      string
	State     State
	CreatedAt time.Time

	Detailed    bool      // fields below are set (ContainerStatus); List leaves them zero.
	CgroupsPath string    // linux.cgroupsPath in the container's OCI spec.
	PID         int       // container's init in the runtime's PID namespace, 0 before the start and after the exit.
	FinishedAt  time.Time // when it exited; zero if it has not, or if the runtime does not report it.
	// Requested are the resources in CRI's status: the kubelet's request at
	// creation and in later updates. On containerd an NRI plugin's adjustment at creation is
	// missing until the first update copies the spec there.
	Requested Resources
	// Recorded are the resources in the runtime's copy of the OCI spec, which
	// it applies at start and again at its next update. The current values of the cgroup
	// may differ.
	Recorded Resources
	// SharedCPUs is the value of OPENSHIFT_SHARED_CPUS in the container's environment: the
	// list of CPUs that CRI-O adds to Recorded with each update. See the function SharedCPUs.
	SharedCPUs string
	// HasDevices is true if the kubelet's request has CDI devices. CRI-O does not report it, and earlier
	// versions of containerd report it only in ContainerStatus.
	HasDevices bool
	// Claims are the references to ResourceClaims. Only NRI reports them.
	Claims ClaimRefs
}

// RecordedCPUs returns the CPUs that the runtime has recorded for the
// container; the empty set means that it has recorded none and does not change
// the cgroup's cpuset.
func (c Container) RecordedCPUs() (cpuset.Set, error) { return c.parse("cpuset", c.Recorded.CPUs) }

// RecordedMems returns the NUMA nodes that the runtime has recorded for the
// container's memory; empty means none, as for RecordedCPUs.
func (c Container) RecordedMems() (cpuset.Set, error) {
	return c.parse("memory nodes", c.Recorded.Mems)
}

func (c Container) parse(what, list string) (cpuset.Set, error) {
	s, err := cpuset.Parse(list)
	if err != nil {
		err = fmt.Errorf("parse recorded %s of container %s: %w", what, c.ID, err)
	}
	return s, err
}

// Resources are CPU resources in the units of CRI and of cgroup v1. In JSON they are
// linux.resources.cpu of the OCI runtime specification.
type Resources struct {
	Shares uint64 `json:"shares"` // CFS shares, 2..262144; 0 means unset
	// Quota and Period are in microseconds. A quota of 0 means unset, a negative
	// one none; a period of 0 means the kernel's default of 100 ms.
	Quota  int64  `json:"quota"`
	Period int64  `json:"period"`
	CPUs   string `json:"cpus"` // in the kernel's list format; empty means unset
	Mems   string `json:"mems"` // NUMA nodes, likewise
}

// State is the state of a container.
type State int

// The states of CRI's ContainerState. Unknown means that the runtime could not
// find out (containerd: after a crash of the shim).
const (
	Unknown State = iota
	Created
	Running
	Exited
)
