package preflight

import (
	"fmt"
	"io/fs"
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
// long before anything fails. Of each pool those that are online count. Where the kubelet's
// pods may run everywhere, by a pool without a list, none is too small for them.
func checkManagementSize(e *evidence) []Finding {
	node, advised := "worker", workerThreads
	if isControlPlane(e.root) {
		node, advised = "control-plane node", controlPlaneThreads
	}
	var found []Finding
	for _, p := range e.config.Pools.Partitions {
		cpus := p.CPUs
		if e.topologyErr == nil && e.topology != nil {
			cpus = cpus.Intersection(e.topology.Online)
		}
		switch {
		case p.Type == managementType && p.All:
			return nil
		case p.All || cpus.IsEmpty() || cpus.Len() >= advised: // an empty one is another check's
			continue
		}
		found = append(found, Finding{
			Severity: Warning,
			Subject:  e.file + ": partitions: " + p.Type,
			Found:    fmt.Sprintf("has CPUs %s, which makes %d; OpenShift's wide-availability-workload-partitioning advises at least %d hyperthreads for management pods of a %s", cpus, cpus.Len(), advised, node),
			Remedy:   "give it more CPUs, whole cores if there are threads, unless measurements show that these are enough",
		})
	}
	return found
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
