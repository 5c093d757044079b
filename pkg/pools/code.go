package pools

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
