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
	// Assignments are to be the next Input's Previous. They include CPUs that
	// are held for containers that are not there at the moment.
	Assignments []Assignment `json:"assignments"`
	Shared      cpuset.Set   `json:"shared"` // what the shared pool has at the moment; never empty
	// Free are the guaranteed CPUs that nobody holds. With Pools.FromShared they
	// are in Shared too, but for Resting.
	Free cpuset.Set `json:"free"`
	// Idle are guaranteed CPUs on which nobody may run: the rest of the cores that
	// an owner has to itself (one-owner-per-core).
	Idle cpuset.Set `json:"idle"`
	// Resting are those of Free that the shared pool does not get back for now: who
	// is given them as its own makes nobody give way. There
	// are none when nobody has CPUs of its own, and never so many that the shared pool
	// is below its floor.
	Resting cpuset.Set `json:"resting"`
	// Theirs are the CPUs of containers that are [Foreign], as far as these have CPUs
	// of their own; nobody gets one of them to itself who has not had it. TheirsAlone
	// are those of them that they have to themselves: no pool has them, unless it would
	// be empty without.
	Theirs      cpuset.Set `json:"theirs,omitzero"`
	TheirsAlone cpuset.Set `json:"theirsAlone,omitzero"`
	Problems    []Problem  `json:"problems"` // all inputs that could not be honoured, by pod and container
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

// PodPlan is what a pod's slice and its containers should be.
type PodPlan struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Shares are the effective CFS shares of the pod's containers together,
	// where annotations make them differ from what the kubelet knows; 0 leaves
	// the pod slice's weight alone.
	Shares uint64 `json:"shares"`
	// Unlimited says that the pod slice must have no quota, because one of its
	// containers owns its CPUs and has none.
	Unlimited bool `json:"unlimited"`
	// Quota and Period, in microseconds, are to be put back where a quota of the
	// slice was lifted; a quota of 0 means that the pod had none, or that it is not
	// known, or Unlimited.
	Quota      int64       `json:"quota"`
	Period     int64       `json:"period"`
	Reason     Reason      `json:"reason"` // of Shares or Unlimited; zero if neither
	Containers []Placement `json:"containers"`
}

// Placement is what one container should be. Of one with Pool == Other it says what
// is: nothing of it is to be written.
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
	// Mixed are CPUs that one that is Exclusive runs on beside its own, which are CPUs,
	// and shares with others: none of them is anybody's own. Empty for all others.
	Mixed cpuset.Set `json:"mixed,omitzero"`
	Mems  cpuset.Set `json:"mems"` // IDs of the NUMA nodes to bind memory to; empty leaves the binding alone
	// Unread says that the container's pod is Pod.Unread and has no CPUs on record
	// for it: it may belong anywhere. It stays where it is, as long as that is no
	// owner's; CPUs are those of the shared pool, for one that is nowhere yet.
	Unread bool   `json:"unread"`
	Shares uint64 `json:"shares"` // those of the annotation; 0 leaves the weight alone
	// Limit is the CPU limit of the annotation, in thousandths of a CPU: the webhook has
	// taken it out of the pod with the request. 0 means none, or that it is not known;
	// else it is the quota, in a period of 100 ms.
	Limit int64 `json:"limit,omitzero"`
	// Unlimited says that the container must have no quota. Quota and Period, in
	// microseconds, are to be put back where its quota was lifted; a quota of 0
	// means that the kubelet gave it none, or that it is not known, or Unlimited.
	Unlimited bool  `json:"unlimited"`
	Quota     int64 `json:"quota"`
	Period    int64 `json:"period"`
	// Refused says why the container runs in the shared pool although it should
	// have CPUs of its own; nil in all other cases.
	Refused *allocate.Refusal `json:"refused,omitempty"`
	// Short says why the container has fewer CPUs of its own than it should; nil in
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
	Unit      string `json:"unit,omitempty"`      // set for a problem of a systemd unit, which has no pod
	Reason
}
