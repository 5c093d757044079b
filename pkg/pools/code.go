package pools

// Code is a stable name for a reason, for metric labels, events and tests.
type Code string

// Codes of placements: why a container is in its pool.
const (
	// CodeManagement: the pod asks for a workload type and may.
	CodeManagement Code = "Management"
	// CodeExclusive: a whole number of CPUs in a Guaranteed pod.
	CodeExclusive Code = "Exclusive"
	// CodeHeld: the container has exited; its CPUs wait for its restart.
	CodeHeld Code = "Held"
	// CodeExited: the container has exited and holds no CPUs.
	CodeExited Code = "Exited"
	// CodePause: the pause container of an ordinary pod.
	CodePause Code = "Pause"
	// CodeBestEffort, CodeBurstable: the QoS class says it all.
	CodeBestEffort Code = "BestEffort"
	CodeBurstable  Code = "Burstable"
	// CodeNoQoS: the pod is not in the kubelet's tree.
	CodeNoQoS Code = "NoQoS"
	// CodeFractional: a Guaranteed pod, but no whole number of CPUs.
	CodeFractional Code = "Fractional"
	// CodeNoRequest: a container without whole CPUs in a pod with pod-level
	// resources, where the pod has no CPUs to share.
	CodeNoRequest Code = "NoRequest"
	// CodePodPool: the pod has pod-level resources, and the container shares the pod's CPUs.
	CodePodPool Code = "PodPool"
	// CodePodTotalUnknown: the CPUs of the container may be its pod's CPUs, and the pod's total
	// is not known.
	CodePodTotalUnknown Code = "PodTotalUnknown"
	// CodeUnknown: the container's resources are not known.
	CodeUnknown Code = "Unknown"
	// CodeUnread: what the container's pod is could not be read.
	CodeUnread Code = "Unread"
	// CodeSuperseded: still there, next to a newer container of the same name that
	// needs no CPUs of its own.
	CodeSuperseded Code = "Superseded"
	// CodeWaiting: whole CPUs, but its NUMA nodes are not known yet.
	CodeWaiting Code = "Waiting"
	// CodeOtherManager: another manager of CPUs places the container.
	CodeOtherManager Code = "OtherManager"
)

// Codes of placements that are problems too.
const (
	// CodeNoGuaranteedPool: whole CPUs, but this node gives none away. It is a problem of the
	// pod.
	CodeNoGuaranteedPool Code = "NoGuaranteedPool"
	// CodeRefused: the guaranteed pool has too few free CPUs; runs shared.
	CodeRefused Code = "Refused"
	// CodeShort: has CPUs of its own, but fewer than it should.
	CodeShort Code = "Short"
)

// Codes of systemd units.
const (
	// CodeUnit: the configuration names the unit.
	CodeUnit Code = "Unit"
)

// Codes of pods: why a slice's weight or quota is set.
const (
	// CodeAnnotatedShares: annotations say what the containers' shares are.
	CodeAnnotatedShares Code = "AnnotatedShares"
	// CodeUnlimited: a container of the pod has CPUs of its own.
	CodeUnlimited Code = "Unlimited"
)

// Codes of problems only.
const (
	// CodeTargetInvalid: the annotation that asks for a workload type is malformed.
	CodeTargetInvalid Code = "TargetInvalid"
	// CodeTypeUnknown: no partition for the workload type.
	CodeTypeUnknown Code = "TypeUnknown"
	// CodeNamespaceNotListed: the namespace may not ask for the workload type.
	CodeNamespaceNotListed Code = "NamespaceNotListed"
	// CodeNamespaceUnknown: the namespace is not known to allow the workload type, and
	// nobody can be asked at the moment.
	CodeNamespaceUnknown Code = "NamespaceUnknown"
	// CodeStaticNotAllowed: static pods of the namespace may not ask for a workload
	// type.
	CodeStaticNotAllowed Code = "StaticPodNotAllowed"
	// CodeGuaranteedPod: Guaranteed pods cannot be of a workload type.
	CodeGuaranteedPod Code = "GuaranteedPod"
	// CodeResourcesInvalid: a container's resources annotation is malformed, or names a
	// resource that pods do not choose.
	CodeResourcesInvalid Code = "ResourcesInvalid"
	// CodeResourcesIgnored: resources annotations, but no workload type.
	CodeResourcesIgnored Code = "ResourcesIgnored"
	// CodeNoSuchContainer: resources annotations for containers that the pod does
	// not have.
	CodeNoSuchContainer Code = "NoSuchContainer"
	// CodeOverrideInvalid: an annotation chooses an option or a value that there is
	// not, or options that contradict each other.
	CodeOverrideInvalid Code = "OverrideInvalid"
	// CodeOverrideNotAllowed: an annotation chooses an option that pods may not.
	CodeOverrideNotAllowed Code = "OverrideNotAllowed"
	// CodeSwitchInvalid: one of CRI-O's switches has a value that it does not know.
	CodeSwitchInvalid Code = "SwitchInvalid"
	// CodeSwitchIgnored: one of CRI-O's switches asks for what there is not here.
	CodeSwitchIgnored Code = "SwitchIgnored"
	// CodeMixedNotAllowed: the namespace may not ask for shared CPUs beside a
	// container's own.
	CodeMixedNotAllowed Code = "MixedNotAllowed"
	// CodeOverlap: two containers were recorded as owners of the same CPU.
	CodeOverlap Code = "Overlap"
	// CodeOffline: CPUs that an owner has had are offline, and it has got no others
	// instead.
	CodeOffline Code = "Offline"
	// CodeNotReserved: a pod's total cannot be reserved for its containers.
	CodeNotReserved Code = "NotReserved"
	// CodeOtherOverlap: another manager has put a container on CPUs that an owner has,
	// or that a pool cannot do without.
	CodeOtherOverlap Code = "OtherOverlap"
	// CodeKubeletTook: the kubelet has given CPUs of a partition to a container alone.
	CodeKubeletTook Code = "KubeletTook"
	// CodeCrowded: somebody else has a part of the cores of an owner that should
	// have them to itself.
	CodeCrowded Code = "Crowded"
)

// Codes of problems of the shared pool, which have neither pod nor unit.
const (
	// CodeIdleShared: CPUs that should be idle are in the shared pool.
	CodeIdleShared Code = "IdleShared"
	// CodeBelowFloor: the shared pool has less than its floor.
	CodeBelowFloor Code = "BelowFloor"
)

// floorReached is a code of refusals (allocate.Refusal) beside those of
// pkg/allocate: the shared pool keeps its floor.
const floorReached = "Floor"
