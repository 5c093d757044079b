package preflight

import (
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Threads that wide-availability-workload-partitioning advises for management pods, the
// host and the kubelet together.
const (
	controlPlaneThreads = 4
	workerThreads       = 2
)

// staticPods is where a node's control plane is on nearly all of them.
const staticPods = "etc/kubernetes/manifests"

// checkManagementSize: too few management CPUs slow down the kubelet and a control plane
// long before anything fails. A node without a list has none to be too small.
func checkManagementSize(e *evidence) []Finding {
	var cpus cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		cpus = cpus.Union(p.CPUs)
	}
	node, advised := "worker", workerThreads
	if isControlPlane(e.root) {
		node, advised = "control-plane node", controlPlaneThreads
	}
	if cpus.IsEmpty() || cpus.Len() >= advised {
		return nil
	}
	return []Finding{{
		Severity: Warning,
		Subject:  e.file + ": partitions",
		Found:    fmt.Sprintf("management pools have CPUs %s, which makes %d; OpenShift's wide-availability-workload-partitioning advises at least %d hyperthreads for a %s", cpus, cpus.Len(), advised, node),
		Remedy:   "give them more CPUs, whole cores if there are threads, unless measurements show that these are enough",
	}}
}

// isControlPlane says that an API server runs as a static pod.
func isControlPlane(root fs.FS) bool {
	for _, name := range []string{"kube-apiserver.yaml", "kube-apiserver-pod.yaml"} {
		if _, err := fs.Stat(root, staticPods+"/"+name); err == nil {
			return true
		}
	}
	return false
}
