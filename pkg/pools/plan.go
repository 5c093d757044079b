package pools

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Pool is one of the three kinds of pool.
type Pool string

// The pools of the reference documents 1 and 2.
const (
	Management Pool = "management"
	Shared     Pool = "shared"
	Guaranteed Pool = "guaranteed"
)

// Plan is the desired state of every pod and container. It is sorted, so that
// equal inputs give equal plans whatever their order.
type Plan struct {
	Pods []PodPlan
	// Assignments are to be the next Input's Previous. They include CPUs that
	// are held for containers that are not there at the moment.
	Assignments []Assignment
	// Free are the guaranteed CPUs that nobody holds.
	Free cpuset.Set
	// Problems are all inputs that could not be honoured, by pod and container.
	Problems []Problem
}

// PodPlan is what a pod's slice and its containers should be.
type PodPlan struct {
	UID, Namespace, Name string
	// Shares are the effective CFS shares of the pod's containers together,
	// where annotations make them differ from what the kubelet knows; 0 leaves
	// the pod slice's weight alone.
	Shares uint64
	// Unlimited says that the pod slice must have no quota, because one of its
	// containers owns its CPUs.
	Unlimited  bool
	Reason     Reason // of Shares or Unlimited; zero if neither
	Containers []Placement
}

// Placement is what one container should be.
type Placement struct {
	ID, Name string
	Kind     Kind
	State    ContainerState
	Pool     Pool
	Type     string     // workload type, with Pool == Management
	CPUs     cpuset.Set // never empty
	// Exclusive says that nobody else may run on CPUs.
	Exclusive bool
	// Shares are those of the annotation; 0 leaves the weight alone.
	Shares uint64
	Reason Reason
}

// Reason says why something was decided: a code for metrics and tests and a
// sentence for people.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Problem is an input that could not be honoured, with what was done instead.
type Problem struct {
	PodUID    string `json:"podUID"`
	Pod       string `json:"pod"`                 // namespace/name
	Container string `json:"container,omitempty"` // empty for a problem of the whole pod
	Reason
}
