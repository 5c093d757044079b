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

// Settings holds decisions of the administrator, and decisions that follow from the
// nodes. In the zero value all types and resources are off, and names are OpenShift's.
type Settings struct {
	Names workload.Names
	// Types are the workload types that have a switch. The value reports whether it is on.
	Types map[string]bool
	// Waits are the resources of workload types and pools that are off because of nodes
	// without the resource, with these nodes.
	Waits map[string]Lack
	// WithoutDaemon has the names of nodes on which no daemon can run. Pods that can run only on
	// such nodes are not counted: these nodes have no resources of pools.
	WithoutDaemon map[string]bool
	// SharedCPUs and GuaranteedCPUs switch on the resources of the two pools.
	// If only SharedCPUs is on, the resource of the shared pool counts exclusive CPUs
	// too: they are taken from the shared pool then.
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
	// KubeVirt removes the node selector for a static kubelet from virtual machines with
	// exclusive CPUs of the guaranteed pool.
	KubeVirt bool
	// Exceptions select pods without resources of pools.
	Exceptions Exceptions
	// Claims finds the containers that run on CPUs of ResourceClaims. Nil: no container does.
	Claims Claims
	// outside is true for a pod that can run only on nodes without a daemon, and excepted for a pod
	// of the exceptions.
	outside, excepted bool
}

// Origin holds facts about a pod that must not be read from the pod itself.
type Origin struct {
	// Namespace holds the annotations of the pod's namespace.
	Namespace map[string]string
	// Node is true if a node's identity creates the pod. The annotations by which
	// such a pod claims to be a mirror pod are then trusted.
	Node bool
	// Manifest is true for a manifest of a static pod. Permission to write
	// it includes full access to the node, so no namespace needs to allow it.
	Manifest bool
}

// mirrors reports whether the pod is the mirror pod of a static pod, which runs by its manifest.
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
	// Forbidden is true if the pod lacks a permission for its request. It is false if
	// no pod could get the request.
	Forbidden bool
	Message   string
}

func (r *Refusal) Error() string { return r.Message }
