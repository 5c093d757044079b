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

// managementType is the workload type of the kubelet's and the control plane's pods.
const managementType = "management"

// staticPods is where a node's control plane is on nearly all of them.
const staticPods = "etc/kubernetes/manifests"

// checkManagementSize: too few management CPUs slow down the kubelet and a control plane
// long before anything fails. Those that are online count, of the pool of type management
// where there is one. A pool without a list has none to be too few.
func checkManagementSize(e *evidence) []Finding {
	var cpus cpuset.Set
	for _, p := range e.config.Pools.Partitions {
		if p.Type == managementType {
			cpus = p.CPUs
			break
		}
		cpus = cpus.Union(p.CPUs)
	}
	if e.topologyErr == nil {
		cpus = cpus.Intersection(e.topology.Online)
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
		Found: fmt.Sprintf("of management CPUs %s are online, which makes %d; OpenShift's wide-availability-workload-partitioning advises at least %d hyperthreads for a %s",
			cpus, cpus.Len(), advised, node),
		Remedy: "give the management pool more CPUs, whole cores if there are threads, unless measurements show that these are enough",
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
