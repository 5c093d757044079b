package pools

import (
	"iter"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Pool is one of the three kinds of pool.
type Pool string

// The pools of the reference documents 1 and 2.
const (
	Management Pool = "management"
	Shared     Pool = "shared"
	Guaranteed Pool = "guaranteed"
)

// Other is no pool: such containers are where another manager of CPUs puts them.
const Other Pool = "other"

// Plan is the desired state of every pod and container. It is sorted, so that
// equal inputs give equal plans whatever their order.
type Plan struct {
	Pods  []PodPlan  `json:"pods"`
	Units []UnitPlan `json:"units"` // systemd units of the configuration, by name
	// Assignments are the Previous of the next Input. They include CPUs that are held for
	// containers that do not exist at the moment.
	Assignments []Assignment `json:"assignments"`
	Shared      cpuset.Set   `json:"shared"` // current CPUs of the shared pool; never empty
	// Free are the guaranteed CPUs without an owner. With Pools.FromShared they
	// are in Shared too, except Resting.
	Free cpuset.Set `json:"free"`
	// Idle are guaranteed CPUs that no container may use: the idle siblings of owners with
	// one-owner-per-core.
	Idle cpuset.Set `json:"idle"`
	// Resting are free CPUs that stay out of the shared pool for now, so that a new owner of
	// them moves no container. Resting is empty if no container or unit has exclusive CPUs.
	// The shared pool keeps its floor.
	Resting cpuset.Set `json:"resting"`
	// Theirs are the CPUs on which another manager has put [Foreign] containers. Only an owner
	// that had one of them before keeps it. TheirsAlone are the CPUs in Theirs that such
	// containers use exclusively. No pool contains them, except a pool that would be empty
	// otherwise.
	Theirs      cpuset.Set `json:"theirs,omitzero"`
	TheirsAlone cpuset.Set `json:"theirsAlone,omitzero"`
	Problems    []Problem  `json:"problems"` // all rejected inputs, by pod and container
}

// Allocatable returns the number of CPUs that owners can still get from the plan of p: none
// of the CPUs that the shared pool keeps (guaranteed.floor).
func (plan *Plan) Allocatable(p Pools) int {
	if !p.FromShared {
		return plan.Free.Len()
	}
	return max(min(plan.Shared.Union(plan.Resting).Len()-max(p.Floor, 1), plan.Free.Len()), 0)
}

// Containers returns the placements of all containers with their pods, in order. A caller can change
// them.
func (plan *Plan) Containers() iter.Seq2[*PodPlan, *Placement] {
	return func(yield func(*PodPlan, *Placement) bool) {
		for i := range plan.Pods {
			pod := &plan.Pods[i]
			for j := range pod.Containers {
				if !yield(pod, &pod.Containers[j]) {
					return
				}
			}
		}
	}
}

// App returns the placement of an application container and its pod, or nil.
func (plan *Plan) App(id string) (*PodPlan, *Placement) {
	for i := range plan.Pods {
		if c := plan.Pods[i].App(id); c != nil {
			return &plan.Pods[i], c
		}
	}
	return nil, nil
}

// App returns the placement of an application container in the pod, or nil.
func (pod *PodPlan) App(id string) *Placement {
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.ID == id && c.Kind == App {
			return c
		}
	}
	return nil
}

// PodPlan is the desired state of a pod's slice and its containers.
type PodPlan struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Shares are the effective CFS shares of the pod's containers together, if
	// annotations make them differ from the sum that the kubelet computes. 0 does not
	// change the weight of the pod slice.
	Shares uint64 `json:"shares"`
	// Unlimited reports that the pod slice must have no quota, because one of its
	// containers owns its CPUs and has no quota.
	Unlimited bool `json:"unlimited"`
	// Quota and Period, in microseconds, are restored after a quota of the slice was
	// lifted. A quota of 0 means that the pod had no quota, that its quota is unknown, or
	// Unlimited.
	Quota      int64       `json:"quota"`
	Period     int64       `json:"period"`
	Reason     Reason      `json:"reason"` // of Shares or Unlimited; zero if neither
	Containers []Placement `json:"containers"`
}

// Placement is the desired state of one container. With Pool == Other it describes the
// current state, and the daemon writes no value of the container.
type Placement struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	Kind  Kind           `json:"kind"`
	State ContainerState `json:"state"`
	Pool  Pool           `json:"pool"`
	Type  string         `json:"type"` // workload type, with Pool == Management
	CPUs  cpuset.Set     `json:"cpus"` // never empty, but with Pool == Other: as in Foreign
	// Exclusive reports that no other container may run on CPUs. Without it, a container of the
	// guaranteed pool shares them with other containers of its pod: see InPodPool.
	Exclusive bool `json:"exclusive"`
	// Mixed are the shared CPUs that a container with exclusive CPUs uses in addition.
	// No owner has any of them. Empty for all other containers.
	Mixed cpuset.Set `json:"mixed,omitzero"`
	Mems  cpuset.Set `json:"mems"` // IDs of the NUMA nodes to bind memory to; empty does not change the binding
	// Unread reports that the container's pod is Pod.Unread and that no CPUs are recorded
	// for the container. A container on CPUs without an owner stays there. A new container
	// runs on CPUs, the shared pool.
	Unread bool   `json:"unread"`
	Shares uint64 `json:"shares"` // shares of the annotation; 0 does not change the weight
	// Limit is the CPU limit of the annotation, in thousandths of a CPU: the webhook has
	// removed it from the pod with the request. It is the quota in a period of 100 ms.
	// 0 means that the container has no limit or that the limit is unknown.
	Limit int64 `json:"limit,omitzero"`
	// Unlimited reports that the container must have no quota. Quota and Period, in
	// microseconds, are restored after its quota was lifted. A quota of 0 means that the
	// kubelet set none, that the quota is unknown, or Unlimited.
	Unlimited bool  `json:"unlimited"`
	Quota     int64 `json:"quota"`
	Period    int64 `json:"period"`
	// Refused is the reason why the container runs in the shared pool although it should
	// have exclusive CPUs; nil in all other cases.
	Refused *allocate.Refusal `json:"refused,omitempty"`
	// Short is the reason why the container has fewer exclusive CPUs than it should; nil in
	// all other cases.
	Short  *allocate.Refusal `json:"short,omitempty"`
	Reason Reason            `json:"reason"`
}

// InPodPool reports whether the container shares exclusive CPUs of its pod with other
// containers of the pod: see [PodLevel].
func (at *Placement) InPodPool() bool { return at.Pool == Guaranteed && !at.Exclusive }

// Runs are all CPUs that the container runs on: CPUs and Mixed.
func (at *Placement) Runs() cpuset.Set { return at.CPUs.Union(at.Mixed) }

// UnitPlan is where a systemd unit runs, or will run when it is started.
type UnitPlan struct {
	Name      string            `json:"name"`
	Pool      Pool              `json:"pool"`
	Type      string            `json:"type"` // workload type, with Pool == Management
	CPUs      cpuset.Set        `json:"cpus"` // never empty
	Mems      cpuset.Set        `json:"mems"` // as in Placement
	Exclusive bool              `json:"exclusive"`
	Refused   *allocate.Refusal `json:"refused,omitempty"` // as in Placement
	Reason    Reason            `json:"reason"`
}

// Reason is the cause of a decision: a code for metrics and tests, and a
// sentence for people.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
}

// Problem is a rejected input. Its text states the cause and the consequence.
type Problem struct {
	PodUID    string `json:"podUID"`
	Pod       string `json:"pod"`                 // namespace/name
	Container string `json:"container,omitempty"` // empty for a problem of the whole pod
	Unit      string `json:"unit,omitempty"`      // set for a problem of a systemd unit, which has no pod
	Reason
}
