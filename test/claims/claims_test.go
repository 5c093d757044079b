//go:build apiserver

package claims_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// ours is the result of an allocation of two CPUs of a node.
func ours(node string) resourcev1.DeviceRequestAllocationResult {
	return resourcev1.DeviceRequestAllocationResult{
		Request: "cpus", Driver: dra.Driver, Pool: node, Device: "numa0", ShareID: ptr.To[types.UID]("2c9d4f5e-0000-4000-8000-000000000001"),
		ConsumedCapacity: map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse("2")},
	}
}

// claim returns a claim with a request for an amount of CPUs.
func claim(name, amount string) *resourcev1.ResourceClaim {
	request := resourcev1.DeviceRequest{Name: "cpus", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: dra.Class}}
	if amount != "" {
		request.Exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse(amount)}}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "apps"},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{request, {Name: "nic", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "nic"}}}}},
	}
}

// allocated creates a claim that a scheduler has allocated on a node.
func (s *apiServer) allocated(t *testing.T, name, node string, results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
	t.Helper()
	claims := s.client(t, admin, "").ResourceV1().ResourceClaims("apps")
	c, err := claims.Create(t.Context(), claim(name, "2"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: results},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}
	if c, err = claims.UpdateStatus(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}
