package preflight

import (
	"fmt"
	"io/fs"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Recommended numbers of hyperthreads for management pods, the host and the kubelet together
// (openshift/enhancements, wide-availability-workload-partitioning).
const (
	controlPlaneThreads = 4
	workerThreads       = 2
)

// managementType is the workload type of the kubelet's static pods and of the control plane.
const managementType = "management"

// staticPods is the usual directory of the control plane's static pods.
const staticPods = "etc/kubernetes/manifests"

// checkManagementSize reports too few management CPUs: they slow down the kubelet and a
// control plane long before a failure. It counts the online CPUs of the pool of type
// management, otherwise of all management pools. A pool without a list is not checked.
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
	return []Finding{newFinding(Warning, e.file+": partitions",
		fmt.Sprintf("only CPUs %s of the management pools are online, %d in total; OpenShift's wide-availability-workload-partitioning advises at least %d hyperthreads for a %s",
			cpus, cpus.Len(), advised, node),
		"give the management pool more CPUs, in whole cores, unless measurements show that these are enough")}
}

func isControlPlane(root fs.FS) bool {
	for _, name := range []string{"kube-apiserver.yaml", "kube-apiserver-pod.yaml"} {
		if _, err := fs.Stat(root, staticPods+"/"+name); err == nil {
			return true
		}
	}
	return false
}
