//go:build e2e

package e2e_test

// A conformanceCase is one of Kubernetes' tests of nodes.
type conformanceCase struct {
	name string // the whole name, as `suite -list-tests` prints it
	why  string // part of cpupoold that could make it fail
}

// Parts of several names.
const (
	lifecycle = "[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook "
	probing   = "[sig-node] Probing container "
	resizing  = "[sig-node] Pod InPlace Resize Container "
	feature   = "[Feature:InPlacePodVerticalScaling] "
	stock     = " [Conformance] [NodeConformance]"
)

// conformanceCases returns the cases that cpupoold or its webhook could make fail. docs/reference/conformance.md lists the groups of Kubernetes'
// tests of nodes, and gives the reason for each group that has no case here.
func conformanceCases() []conformanceCase {
	return []conformanceCase{
		{name: "[sig-node] Pods should be submitted and removed" + stock, why: "creation and deletion of a pod, with webhook and daemon"},
		{name: "[sig-node] Pods should be updated" + stock, why: "an update of a pod, which trust.yaml validates"},
		{name: "[sig-node] Pods should allow activeDeadlineSeconds to be updated" + stock, why: "an update of the specification of a mutated pod; its kill"},
		{name: "[sig-node] Pods should run through the lifecycle of Pods and PodStatus [Conformance]", why: "patches of all parts of a pod, and dry runs"},
		{name: "[sig-node] Pods should delete a collection of pods [Conformance]", why: "creation and deletion of several pods at once"},
		{name: "[sig-node] Pods should support remote command execution over websockets" + stock, why: "exec puts a process into a pinned cgroup"},
		{
			name: "[sig-node] Container Runtime blackbox test when starting a container that exits should run with the expected status" + stock,
			why:  "restarts of containers, with all restart policies",
		},
		{
			name: "[sig-node] Pod Extended (container restart policy) [FeatureGate:ContainerRestartRules] Container Restart Rules should restart" +
				" container on rule match [Beta] [NodeConformance]",
			why: "restart rules of one container",
		},
		{name: probing + `should be restarted with a exec "cat /tmp/health" liveness probe` + stock, why: "the time of exec probes; restart"},
		{name: probing + "should be restarted with a /healthz http liveness probe" + stock, why: "HTTP probes; restart"},
		{name: probing + "should be ready immediately after startupProbe succeeds [NodeConformance]", why: "probes at the start, when cpusets are written"},
		{name: probing + "with readiness probe should not be ready before initial delay and never restart" + stock, why: "no restart by the daemon"},
		{
			name: "[sig-node] Probing restartable init container should be restarted with a exec \"cat /tmp/health\" liveness probe [NodeConformance]",
			why:  "restart of a sidecar",
		},
		{name: "[sig-node] InitContainer should invoke init containers on a RestartAlways pod" + stock, why: "init containers before an app that stays; requests in each container"},
		{
			name: "[sig-node] InitContainer should not start app containers if init containers fail on a RestartAlways pod" + stock,
			why:  "CPUs of an app that never starts; requests in each container",
		},
		{name: lifecycle + "should execute poststart http hook properly" + stock, why: "a hook between the start and the writes of the daemon; a sidecar"},
		{name: lifecycle + "should execute prestop http hook properly" + stock, why: "a hook at the end; a sidecar"},
		{
			name: "[sig-node] Ephemeral Containers will start an ephemeral container in an existing pod" + stock,
			why:  "an update of the pod with the webhook; placement of its container; exec in it",
		},
		{name: "[sig-node] Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars" + stock, why: "unchanged requests of cpu"},
		{name: "[sig-node] Downward API should provide default limits.cpu/memory from node allocatable" + stock, why: "unchanged cpu of the node"},
		{name: "[sig-storage] Downward API volume should provide container's cpu request" + stock, why: "unchanged requests of cpu"},
		{name: "[sig-storage] ConfigMap should be consumable from pods in volume" + stock, why: "volumes of a mutated pod"},
		{
			name: "[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead" + stock,
			why:  "another admission plugin changes the same pod",
		},
		{name: "[sig-node] PodOSRejection Kubelet [LinuxOnly] should reject pod when the node OS doesn't match pod's OS [NodeConformance]", why: "CPUs of a pod that never runs"},
		{name: resizing + "decrease memory limit below usage [Feature:InPlacePodVerticalScaling]", why: "a resize of memory alone, a resize that fails, and the way back"},
		{name: resizing + "apply invalid resize patch requests " + feature + "BestEffort pod - request cpu", why: "which program refuses a resize, and its message"},
	}
}
