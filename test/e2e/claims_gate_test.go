//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClaimAccounting checks that the scheduler counts the CPUs of claims once. With the gate DRANodeAllocatableResources in control plane and kubelet, claims
// count as cpu. Without the gate in one of both, claims do not count, and the kubelet reserves the CPUs.
func TestClaimAccounting(t *testing.T) {
	c := startClaims(t, countGate+"=true", reservedWith)
	c.installDriver(t)
	t.Run("mapped", c.countsAsCPU)
	t.Run("gate off in the control plane", func(t *testing.T) {
		c.plane.regate(t, "")
		c.countsNoLonger(t)
	})
	t.Run("gate off in the kubelet", func(t *testing.T) {
		c.plane.regate(t, countGate+"=true")
		c.machines[0].gate(t, "")
		c.reserve(t, reservedWithout)
		c.run(t, "systemctl", "restart", "kubelet")
		c.countsNoLonger(t)
		c.countsReserved(t)
	})
}

// countsAsCPU checks that a claim of two CPUs takes two of the node's seven cpu.
func (c *claimCluster) countsAsCPU(t *testing.T) {
	c.mapped(t, true)
	c.allocatable(t, 7)
	c.claim(t, "owner", "2", onNode(0))
	owner := c.launch(t, claimPod("owner", "owner"))
	c.runsOn(t, owner, "app", "2-3")
	c.rest(t, 7000-2000-c.requested(t)) // the claim counts, and the request of its container does too
}

// countsNoLonger checks that the driver finds out that a gate is off, and that claims keep their CPUs.
func (c *claimCluster) countsNoLonger(t *testing.T) {
	c.probesAgain(t)
	c.mapped(t, false)
	c.keeps(t)
	c.mapped(t, false) // also after the driver has asked the API server again
}

// countsReserved checks that a claim takes none of the node's cpu, from which the kubelet has taken the list. The pod owner
// counts as before until it ends, because its status has the CPUs of the claim.
func (c *claimCluster) countsReserved(t *testing.T) {
	c.allocatable(t, 3)
	c.end(t, "owner")
	c.claim(t, "reserved", "2")
	c.launch(t, claimPod("reserved", "reserved"))
	c.rest(t, 3000-c.requested(t))
	c.end(t, "reserved")
	c.free(t, "2-3,6-7")
}

// probesAgain restarts the driver, which finds out about the gates at its start and daily.
func (c *claimCluster) probesAgain(t *testing.T) {
	t.Helper()
	read(t, "docs/how-to/use-resource-claims.md").follow(t, c.cluster,
		"kubectl -n cpupoold rollout restart daemonset cpupool-dra", "kubectl -n cpupoold rollout status daemonset cpupool-dra")
}

// keeps checks that the pod owner runs on its CPUs, and that another pod gets the CPUs of the other node.
func (c *claimCluster) keeps(t *testing.T) {
	t.Helper()
	c.runsOn(t, claimPod("owner"), "app", "2-3")
	c.capacities(t, 2, 2)
	c.claim(t, "other", "2")
	other := c.launch(t, claimPod("other", "other"))
	c.runsOn(t, other, "app", "6-7")
	c.runsOn(t, claimPod("owner"), "app", "2-3")
	c.end(t, "other")
	c.free(t, "6-7")
}

// requested returns the sum of the CPU requests of all pods in thousandths.
func (c *claimCluster) requested(t *testing.T) int64 {
	t.Helper()
	pods, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	for i := range pods.Items {
		for j := range pods.Items[i].Spec.Containers {
			sum += pods.Items[i].Spec.Containers[j].Resources.Requests.Cpu().MilliValue()
		}
	}
	return sum
}

// rest checks that the scheduler has exactly this much cpu left on the node, in thousandths.
func (c *claimCluster) rest(t *testing.T, milli int64) {
	t.Helper()
	request := func(name string, milli int64) *corev1.Pod {
		pod := claimPod(name)
		pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI)}}
		return pod
	}
	c.add(t, request("too-much", milli+1))
	c.pends(t, "too-much", "Insufficient cpu")
	c.end(t, "too-much")
	c.add(t, request("fits", milli))
	eventually(t, fmt.Sprintf("a pod with %dm of cpu is scheduled", milli), func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods("apps").Get(ctx, "fits", metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName == "" {
			err = fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
		}
		return err
	})
	c.end(t, "fits")
}
