package nodefixture

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// RunPod starts a pod sandbox and returns its id. The pod's containers request cpus in sum.
func (n *Node) RunPod(uid, namespace, qos string, cpus int, annotations map[string]string) string {
	n.T.Helper()
	return n.RunPodOf(uid, namespace, qos, WholeCPUs(cpus), annotations)
}

// RunPodOf is RunPod with a total of any resources.
func (n *Node) RunPodOf(uid, namespace, qos string, total cri.Resources, annotations map[string]string) string {
	n.T.Helper()
	id, err := n.Runtime.RunPod(testnode.PodSpec{UID: uid, Namespace: namespace, Name: uid, QoS: qos, Annotations: annotations, Resources: total})
	if err != nil {
		n.T.Fatal(err)
	}
	return id
}

// RunContainer creates and starts a container and returns its id.
func (n *Node) RunContainer(pod, name string, res cri.Resources) string {
	n.T.Helper()
	id, err := n.Runtime.CreateContainer(pod, testnode.ContainerSpec{Name: name, Attempt: n.NextAttempt(pod, name), Resources: res})
	if err == nil {
		err = n.Runtime.StartContainer(id)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return id
}

// NextAttempt returns the attempt of the next container of a name in a pod. Tests need it
// for containers that they create without RunContainer.
func (n *Node) NextAttempt(pod, name string) uint32 {
	attempt := n.attempts[pod+"/"+name]
	n.attempts[pod+"/"+name]++
	return attempt
}

// BeginContainer creates and starts a container. It returns the id and the CPUs on which
// the first process began.
func (n *Node) BeginContainer(pod, name string, res cri.Resources) (id string, on cpuset.Set) {
	n.T.Helper()
	id = n.RunContainer(pod, name, res)
	return id, n.Runtime.BeganOn(id)
}

// PodOf returns the id of the container's sandbox, or "" for an unknown container.
func (n *Node) PodOf(container string) string {
	_, containers, err := n.Client.List(context.Background())
	if err != nil {
		n.T.Fatal(err)
	}
	for _, c := range containers {
		if c.ID == container {
			return c.PodID
		}
	}
	return ""
}

// IsRunning reports whether a container has processes.
func (n *Node) IsRunning(id string) bool { return n.State(id).Populated }

// WholeCPUs returns the resources of n CPUs in a Guaranteed pod.
func WholeCPUs(n int) cri.Resources {
	return cri.Resources{Shares: uint64(n) * 1024, Quota: int64(n) * 100000, Period: 100000}
}

// MilliCPUs returns the resources of n thousandths of a CPU in a Guaranteed pod.
func MilliCPUs(n int) cri.Resources {
	return cri.Resources{Shares: uint64(n) * 1024 / 1000, Quota: int64(n) * 100, Period: 100_000}
}

// Management returns the annotations of a management pod, with the CPU shares of its
// containers.
func Management(shares map[string]int) map[string]string {
	a := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		a["resources.workload.openshift.io/"+name] = fmt.Sprintf(`{"cpushares":%d}`, shares[name])
	}
	return a
}

// LimitedManagement returns the annotations of a management pod with a container that has
// a limit, in thousandths of a CPU.
func LimitedManagement(name string, shares, limit int) map[string]string {
	a := Management(nil)
	a["resources.workload.openshift.io/"+name] = fmt.Sprintf(`{"cpushares":%d,"cpulimit":%d}`, shares, limit)
	return a
}

// MixedAnnotations returns annotations that request shared CPUs for container app, in
// addition to its exclusive CPUs.
func MixedAnnotations() map[string]string {
	return map[string]string{"cpu-shared.crio.io/app": "enable"}
}

// RecordedCPUs returns the cpuset that the runtime has recorded for a container.
func (n *Node) RecordedCPUs(id string) string {
	n.T.Helper()
	c, err := n.Client.ContainerStatus(n.T.Context(), id)
	if err != nil {
		n.T.Fatal(err)
	}
	cpus, err := c.RecordedCPUs()
	if err != nil {
		n.T.Fatal(err)
	}
	return cpus.String()
}
