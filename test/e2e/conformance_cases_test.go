//go:build e2e

package e2e_test

// A conformanceCase is one of Kubernetes' tests of nodes.
type conformanceCase struct {
	name string // all of it, as `suite -list-tests` has it
	why  string // what of cpupoold it could catch
}

// Names that begin the same.
const (
	lifecycle = "[sig-node] Container Lifecycle Hook when create a pod with lifecycle hook "
	probing   = "[sig-node] Probing container "
	resizing  = "[sig-node] Pod InPlace Resize Container "
	feature   = "[Feature:InPlacePodVerticalScaling] "
	stock     = " [Conformance] [NodeConformance]"
)

// conformanceCases are those with which cpupoold or its webhook could interfere. None needs a pod's address from outside the node, a name server
// or kube-proxy. Mirror pods are not among them: their tests are of a suite that starts a kubelet of its own; test/vm has them. Those of pod
// level resources and of resizes of CPU have limits of a few millicores, with which an emulated CPU takes longer than their five minutes.
func conformanceCases() []conformanceCase {
	return []conformanceCase{
		{name: "[sig-node] Pods should be submitted and removed" + stock, why: "a pod comes and goes, through the webhook and the daemon"},
		{name: "[sig-node] Pods should be updated" + stock, why: "an update of a pod, which trust.yaml looks at"},
		{name: "[sig-node] Pods should allow activeDeadlineSeconds to be updated" + stock, why: "an update of a mutated pod's specification; it is killed"},
		{name: "[sig-node] Pods should run through the lifecycle of Pods and PodStatus [Conformance]", why: "patches of all of a pod, dry runs"},
		{name: "[sig-node] Pods should delete a collection of pods [Conformance]", why: "several pods come and go at once"},
		{name: "[sig-node] Pods should support remote command execution over websockets" + stock, why: "exec puts a process into a pinned cgroup"},
		{
			name: "[sig-node] Container Runtime blackbox test when starting a container that exits should run with the expected status" + stock,
			why:  "containers restart, by all restart policies",
		},
		{
			name: "[sig-node] Pod Extended (container restart policy) [FeatureGate:ContainerRestartRules] Container Restart Rules should restart" +
				" container on rule match [Beta] [NodeConformance]",
			why: "a container's own rule of restarts",
		},
		{name: probing + `should be restarted with a exec "cat /tmp/health" liveness probe` + stock, why: "exec probes keep their time; restart"},
		{name: probing + "should be restarted with a /healthz http liveness probe" + stock, why: "probes of HTTP; restart"},
		{name: probing + "should be ready immediately after startupProbe succeeds [NodeConformance]", why: "probes at the start, when cpusets are written"},
		{name: probing + "with readiness probe should not be ready before initial delay and never restart" + stock, why: "nobody restarts a container"},
		{
			name: "[sig-node] Probing restartable init container should be restarted with a exec \"cat /tmp/health\" liveness probe [NodeConformance]",
			why:  "a sidecar restarts",
		},
		{name: "[sig-node] InitContainer should invoke init containers on a RestartAlways pod" + stock, why: "the same, and an app that stays; requests in each"},
		{
			name: "[sig-node] InitContainer should not start app containers if init containers fail on a RestartAlways pod" + stock,
			why:  "CPUs of an app that never comes, requests in each",
		},
		{name: lifecycle + "should execute poststart http hook properly" + stock, why: "a hook between the start and what the daemon writes; a sidecar"},
		{name: lifecycle + "should execute prestop http hook properly" + stock, why: "a hook at the end; a sidecar"},
		{
			name: "[sig-node] Ephemeral Containers will start an ephemeral container in an existing pod" + stock,
			why:  "an update of the pod through the webhook; its container is placed; exec in it",
		},
		{name: "[sig-node] Downward API should provide container's limits.cpu/memory and requests.cpu/memory as env vars" + stock, why: "requests stay as they are"},
		{name: "[sig-node] Downward API should provide default limits.cpu/memory from node allocatable" + stock, why: "the node's cpu stays as it is"},
		{name: "[sig-storage] Downward API volume should provide container's cpu request" + stock, why: "requests stay as they are"},
		{name: "[sig-storage] ConfigMap should be consumable from pods in volume" + stock, why: "volumes of a mutated pod"},
		{
			name: "[sig-node] RuntimeClass should schedule a Pod requesting a RuntimeClass and initialize its Overhead" + stock,
			why:  "another admission plugin changes the same pod",
		},
		{name: "[sig-node] PodOSRejection Kubelet [LinuxOnly] should reject pod when the node OS doesn't match pod's OS [NodeConformance]", why: "a pod that gets CPUs and never runs"},
		{name: resizing + "decrease memory limit below usage [Feature:InPlacePodVerticalScaling]", why: "a resize without CPU, one that is refused, and back"},
		{name: resizing + "apply invalid resize patch requests " + feature + "BestEffort pod - request cpu", why: "who refuses a resize, and how"},
	}
}
