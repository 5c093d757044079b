package pools

import (
	"cmp"
	"iter"
	"slices"

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
	Pods   []PodPlan   `json:"pods"`
	Units  []UnitPlan  `json:"units"`           // systemd units of the configuration, by name
	Claims []ClaimPlan `json:"claims,omitzero"` // ResourceClaims, by UID
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
	// Claims are the UIDs of the ResourceClaims of which the container has its CPUs. Containers
	// that have a claim in common share its CPUs.
	Claims []string `json:"claims,omitzero"`
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
	Claim     string `json:"claim,omitempty"`     // Namespace/name of a ResourceClaim. Pod and Container are empty then.
	Reason
}

// Owner is an owner of exclusive CPUs, with the inputs of their choice.
type Owner struct {
	Key  Key
	Pod  string // namespace/name, for a claim its own; empty for a systemd unit
	CPUs cpuset.Set
	// Options and Nodes are the fields of an [allocate.Request] for it.
	Options allocate.Options
	Nodes   cpuset.Set
	// Fixed is the reason why the owner must keep its CPUs, even for the same number of
	// others; empty if it may change.
	Fixed string
}

// Owners returns the owners in a plan that Build made of in. They are in
// the order of the plan's assignments.
func Owners(in Input, plan Plan) []Owner {
	pods := present(in.Pods)
	c := classifier{in: &in}
	owners := make([]Owner, 0, len(plan.Assignments))
	for _, a := range plan.Assignments {
		if a.CPUs.IsEmpty() {
			continue // all of them are offline
		}
		o := Owner{Key: a.Key, CPUs: a.CPUs, Options: in.Pools.Options}
		if a.Claim != "" {
			i := slices.IndexFunc(plan.Claims, func(p ClaimPlan) bool { return p.UID == a.Claim })
			o.Pod, o.Fixed = plan.Claims[i].Namespace+"/"+plan.Claims[i].Name, "the CPUs of a ResourceClaim never move"
			o.Options = in.Pools.claimOptions()
		} else if !a.IsUnit() {
			i, ok := slices.BinarySearchFunc(pods, a.PodUID, func(p Pod, uid string) int { return cmp.Compare(p.UID, uid) })
			if !ok {
				continue // Build assigns no CPUs to pods that do not exist
			}
			of, isPlanned := slices.BinarySearchFunc(plan.Pods, a.PodUID, func(p PodPlan, uid string) int { return cmp.Compare(p.UID, uid) })
			if o.ofPod(&pods[i]); isPlanned && slices.ContainsFunc(plan.Pods[of].Containers, func(at Placement) bool { return at.InPodPool() }) {
				o.Fixed = "its pod has pod-level resources, and the CPUs belong to the pod"
			}
			o.Options = *c.options(&pods[i])
		}
		owners = append(owners, o)
	}
	return owners
}

// ofPod sets the fields of an owner that depend on its pod.
func (o *Owner) ofPod(p *Pod) {
	o.Pod = p.Namespace + "/" + p.Name
	o.Fixed = "no container of this name exists; the CPUs are held for it"
	if o.Key.Container == "" {
		o.Fixed = "reserved for later containers of the pod"
		return
	}
	i, next := p.newest(0)
	for i >= 0 && p.Containers[i].Name != o.Key.Container {
		i, next = p.newest(next)
	}
	if i < 0 {
		return
	}
	newest := &p.Containers[i]
	o.Nodes = newest.Nodes
	switch {
	case p.Unread:
		o.Fixed = "the status of its pod could not be read"
	case newest.State == Exited:
		o.Fixed = "has exited; its CPUs are held for its restart, and the runtime has recorded them"
	case newest.State == Created:
		o.Fixed = "is being started"
	case newest.Waiting:
		o.Fixed = "its NUMA nodes are not known yet"
	default:
		o.Fixed = ""
	}
}

// Code is a stable name for a reason, for metric labels, events and tests.
type Code string

// Codes of placements: why a container is in its pool.
const (
	CodeManagement Code = "Management" // pod requests a workload type that it may use.
	CodeExclusive  Code = "Exclusive"  // a whole number of CPUs in a Guaranteed pod.
	CodeHeld       Code = "Held"       // container has exited; its CPUs wait for its restart
	CodeExited     Code = "Exited"     // container has exited and holds no CPUs
	CodePause      Code = "Pause"      // pause container of an ordinary pod
	// CodeBestEffort, CodeBurstable: the QoS class is the whole reason.
	CodeBestEffort Code = "BestEffort"
	CodeBurstable  Code = "Burstable"
	CodeNoQoS      Code = "NoQoS"      // pod is not in the kubelet's tree
	CodeFractional Code = "Fractional" // a Guaranteed pod, but no whole number of CPUs
	// CodeNoRequest: a container without whole CPUs in a pod with pod-level
	// resources, where the pod has no CPUs to share.
	CodeNoRequest Code = "NoRequest"
	CodeClaim     Code = "Claim"   // container uses a ResourceClaim
	CodePodPool   Code = "PodPool" // pod has pod-level resources, and the container shares the pod's CPUs
	// CodePodTotalUnknown: the CPUs of the container may be its pod's CPUs, and the pod's total
	// is not known.
	CodePodTotalUnknown Code = "PodTotalUnknown"
	CodeUnknown         Code = "Unknown" // container's resources are not known
	CodeUnread          Code = "Unread"  // status of the container's pod could not be read
	// CodeSuperseded: the container still exists, next to a newer container of the same
	// name that needs no exclusive CPUs.
	CodeSuperseded   Code = "Superseded"
	CodeWaiting      Code = "Waiting"      // whole CPUs, but its NUMA nodes are not known yet
	CodeOtherManager Code = "OtherManager" // another manager of CPUs places the container
)

// Codes of placements that are problems too.
const (
	// CodeNoGuaranteedPool: whole CPUs, but this node allocates none. It is a problem of the
	// pod.
	CodeNoGuaranteedPool Code = "NoGuaranteedPool"
	CodeRefused          Code = "Refused" // guaranteed pool has too few free CPUs; runs shared
	CodeShort            Code = "Short"   // has exclusive CPUs, but fewer than it should
)

// Codes of systemd units.
const (
	CodeUnit Code = "Unit" // configuration names the unit
)

// Codes of pods: why a slice's weight or quota is set.
const (
	CodeAnnotatedShares Code = "AnnotatedShares" // annotations set the containers' shares
	CodeUnlimited       Code = "Unlimited"       // a container of the pod has exclusive CPUs
)

// Codes of problems only.
const (
	CodeTargetInvalid      Code = "TargetInvalid"      // annotation that asks for a workload type is malformed
	CodeTypeUnknown        Code = "TypeUnknown"        // no partition for the workload type
	CodeNamespaceNotListed Code = "NamespaceNotListed" // namespace may not ask for the workload type
	// CodeNamespaceUnknown: the namespace is not known to allow the workload type, and
	// the API server cannot be reached at the moment.
	CodeNamespaceUnknown Code = "NamespaceUnknown"
	CodeStaticNotAllowed Code = "StaticPodNotAllowed" // static pods of the namespace may not ask for a workload type
	CodeGuaranteedPod    Code = "GuaranteedPod"       // Guaranteed pods cannot be of a workload type
	// CodeResourcesInvalid: a container's resources annotation is malformed, or names a
	// resource that pods do not choose.
	CodeResourcesInvalid Code = "ResourcesInvalid"
	CodeResourcesIgnored Code = "ResourcesIgnored" // resources annotations, but no workload type
	CodeNoSuchContainer  Code = "NoSuchContainer"  // resources annotations for containers that the pod does not have
	// CodeOverrideInvalid: an annotation chooses an unknown option or value, or options
	// that contradict each other.
	CodeOverrideInvalid    Code = "OverrideInvalid"
	CodeOverrideNotAllowed Code = "OverrideNotAllowed" // an annotation chooses an option that pods may not.
	CodeSwitchInvalid      Code = "SwitchInvalid"      // a CRI-O annotation has an invalid value.
	CodeSwitchIgnored      Code = "SwitchIgnored"      // a CRI-O annotation requests an unavailable feature.
	CodeMixedNotAllowed    Code = "MixedNotAllowed"    // namespace may not request shared CPUs in addition to exclusive CPUs.
	CodeOverlap            Code = "Overlap"            // two containers were recorded as owners of the same CPU.
	CodeOffline            Code = "Offline"            // CPUs of an owner are offline, and it has got no others instead.
	CodeNotReserved        Code = "NotReserved"        // a pod's total cannot be reserved for its containers
	// CodeOtherOverlap: another manager has put a container on CPUs that an owner has,
	// or that a pool cannot do without.
	CodeOtherOverlap Code = "OtherOverlap"
	CodeOutsideList  Code = "OutsideList" // A claim has CPUs that the configuration no longer gives to claims.
	CodeKubeletTook  Code = "KubeletTook" // kubelet has given CPUs of a partition to a container alone
	CodeCrowded      Code = "Crowded"     // another owner has threads of the cores of an owner with one-owner-per-core
)

// Codes of problems of the shared pool, which have neither pod nor unit.
const (
	CodeIdleShared Code = "IdleShared" // CPUs that should be idle are in the shared pool
	CodeBelowFloor Code = "BelowFloor" // shared pool has less than its floor
)

// floorReached is a code of refusals (allocate.Refusal) in addition to the codes of
// pkg/allocate: the shared pool keeps its floor.
const floorReached = "Floor"

// Owned returns the exclusive CPUs of the plan, with idle siblings.
func (plan *Plan) Owned() cpuset.Set {
	owned := plan.Idle
	for _, a := range plan.Assignments {
		owned = owned.Union(a.CPUs)
	}
	return owned
}
