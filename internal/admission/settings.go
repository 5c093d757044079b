package admission

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// The kubelet's annotations of static pods and of the copies of them that it
// shows in the API (kubelet types ConfigSourceAnnotationKey, ConfigMirrorAnnotationKey).
const (
	sourceKey = "kubernetes.io/config.source"
	sourceAPI = "api"
	mirrorKey = "kubernetes.io/config.mirror"
)

// Settings are what an administrator has decided, or what follows from the nodes.
// The zero value has everything off and OpenShift's names.
type Settings struct {
	Names workload.Names
	// Types are the workload types that have a switch, with true for those that are on.
	Types map[string]bool
	// Waits are the resources of workload types and pools that are off because of nodes
	// without the resource, with these nodes.
	Waits map[string]Lack
	// WithoutDaemon has the names of nodes on which no daemon can run. Pods that can run only on
	// such nodes are not counted: these nodes have no resources of pools.
	WithoutDaemon map[string]bool
	// SharedCPUs and GuaranteedCPUs switch on the resources of the two pools.
	// Without the second one, containers with CPUs of their own are counted by the
	// first: their CPUs are taken from the shared pool then.
	SharedCPUs, GuaranteedCPUs bool
	// TolerateDepletion lets pods with a CPU request, and pods of a workload type, be
	// scheduled to nodes whose shared pool is depleted (workload.DepletedTaint).
	TolerateDepletion bool
	// Defaults states which values of spec.resources the API server sets.
	Defaults Defaults
	// PodLevel is for pods with spec.resources. With PodLevelOverride, a pod may choose
	// another value by annotation, as guaranteed.overrides allows it on the nodes.
	PodLevel         PodLevel
	PodLevelOverride bool
	// outside is true for a pod that can run only on nodes without a daemon.
	outside bool
}

// Origin is what a pod cannot be believed to say about itself.
type Origin struct {
	// Namespace holds the annotations of the pod's namespace.
	Namespace map[string]string
	// Node says that a node's own identity makes the pod. What such a pod says
	// about being a static pod is true.
	Node bool
	// Manifest says that the pod is a manifest for a node's static pods. Who may
	// write it may do anything on the node, and no namespace needs to allow it.
	Manifest bool
}

// mirrors says that the pod only shows a static pod, which runs as its manifest says.
func (o Origin) mirrors(pod *corev1.Pod) bool {
	if !o.Node {
		return false
	}
	source, ok := pod.Annotations[sourceKey]
	_, mirror := pod.Annotations[mirrorKey]
	return mirror || ok && source != sourceAPI
}

// A Refusal is the error of a pod that must not be made. It names what is wrong
// and what to change.
type Refusal struct {
	// Forbidden says that the pod asks for what it may not have; otherwise nobody
	// could be given what it asks for.
	Forbidden bool
	Message   string
}

func (r *Refusal) Error() string { return r.Message }
