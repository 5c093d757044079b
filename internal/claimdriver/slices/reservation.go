package slices

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// reservation is the part of a Node that the accounting depends on. The zero value is a Node that has not
// been read.
type reservation struct {
	read     bool
	reserved resource.Quantity // cpu of the capacity that is not allocatable
	declares bool              // the kubelet declares the feature of the mapping
	version  string            // of the kubelet
}

func reservationOf(node *corev1.Node) reservation {
	r := reservation{read: true, version: node.Status.NodeInfo.KubeletVersion, declares: slices.Contains(node.Status.DeclaredFeatures, feature)}
	r.reserved = node.Status.Capacity[corev1.ResourceCPU].DeepCopy()
	r.reserved.Sub(node.Status.Allocatable[corev1.ResourceCPU])
	return r
}

// lack returns the problem if the kubelet reserves less cpu than the CPUs for claims, and otherwise
// nothing. The reservation also contains CPUs of management pools, so the kubelet may reserve too little
// without a problem here; cpupoold check knows these pools.
func (r reservation) lack(cpus int64) string {
	if !r.read || r.reserved.CmpInt64(cpus) >= 0 {
		return ""
	}
	return fmt.Sprintf("the kubelet reserves %s of the Node's cpu, and %d CPUs are for claims, so the scheduler gives them to other pods too; reserve them in the kubelet's configuration as kubectl cpupool render --format kubelet prints it", r.reserved.String(), cpus)
}
