package admission

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// sharedCPUsVariable is the variable that CRI-O reads back from the environment of a
// container: it adds these CPUs to the cpuset in each update (cri-o 1.34.0,
// server/container_update_resources.go).
const sharedCPUsVariable = "OPENSHIFT_SHARED_CPUS"

// RemoveVariables returns the pod without OPENSHIFT_SHARED_CPUS in its containers and init
// containers, and a warning if one had it. The runtime or the daemon sets this variable.
// Variables of an image, of a ConfigMap and of a Secret are not in the pod: the daemon handles
// them. The copies of static pods that a node shows are returned as they are. Package
// manifest does not write environments, so this is a step of its own.
func RemoveVariables(pod *corev1.Pod, from Origin) (*corev1.Pod, []Warning) {
	has := func(c *corev1.Container) bool { return slices.ContainsFunc(c.Env, isSharedCPUs) }
	if from.mirrors(pod) || !anyOf(pod, has) {
		return pod, nil
	}
	without := draft(pod)
	for _, c := range containers(without) {
		if has(c) {
			c.Env = slices.DeleteFunc(slices.Clone(c.Env), isSharedCPUs)
		}
	}
	return without, []Warning{{Reason: VariableRemoved, Subject: sharedCPUsVariable}}
}

func isSharedCPUs(v corev1.EnvVar) bool { return v.Name == sharedCPUsVariable }

// patchEnvironment removes the variables that RemoveVariables removes, from the end, so that
// each index is still right.
func patchEnvironment(path string, before, after []corev1.EnvVar) []Operation {
	if len(before) == len(after) {
		return nil
	}
	var ops []Operation
	for i, v := range slices.Backward(before) {
		if isSharedCPUs(v) {
			ops = append(ops, Operation{Op: "remove", Path: member(path, strconv.Itoa(i))})
		}
	}
	return ops
}
