//go:build apiserver

package claims_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// reserved creates a claim that a scheduler has allocated on a node for a pod.
func (s *apiServer) reserved(t *testing.T, name, node string, results ...resourcev1.DeviceRequestAllocationResult) *resourcev1.ResourceClaim {
	t.Helper()
	c := s.allocated(t, name, node, results...)
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: name, UID: "8f6e4f5e-0000-4000-8000-000000000001"}}
	c, err := s.client(t, admin, "").ResourceV1().ResourceClaims("apps").UpdateStatus(t.Context(), c, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// nic is the result of an allocation of another driver.
func nic() resourcev1.DeviceRequestAllocationResult {
	return resourcev1.DeviceRequestAllocationResult{Request: "nic", Driver: "nic.example.com", Pool: "n1", Device: "eth0"}
}

// entry returns an entry of status.devices for a result.
func entry(r resourcev1.DeviceRequestAllocationResult, data string) resourcev1.AllocatedDeviceStatus {
	e := resourcev1.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool, Device: r.Device, Data: &runtime.RawExtension{Raw: []byte(data)}}
	if r.ShareID != nil {
		e.ShareID = ptr.To(string(*r.ShareID))
	}
	return e
}

// testStatus checks which changes of the status of claims a driver may make.
func testStatus(t *testing.T, s *apiServer) {
	ctx := t.Context()
	all := s.client(t, admin, "").ResourceV1().ResourceClaims("apps")
	c := s.allocated(t, "both", "n1", ours("n1"), nic())
	foreign := entry(nic(), `{"mac":"02:00:00:00:00:01"}`)
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{foreign}
	c, err := all.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// Of a claim with devices of two nodes the driver writes nothing, because the scheduler makes none.
	other := s.allocated(t, "other", "n2", ours("n2"))
	own := entry(ours("n1"), `{"cpus":"2-3","node":0}`)
	for _, x := range []struct {
		name, node string
		claim      *resourcev1.ResourceClaim
		change     func(*resourcev1.ResourceClaim)
		refused    bool
	}{
		{"its own entry", "n1", c, func(c *resourcev1.ResourceClaim) { c.Status.Devices = append(c.Status.Devices, own) }, false},
		{"its own entry, first", "n1", c, func(c *resourcev1.ResourceClaim) { c.Status.Devices = []resourcev1.AllocatedDeviceStatus{own, foreign} }, false},
		{"no change", "n1", c, func(*resourcev1.ResourceClaim) {}, false},
		{"labels, which the API server ignores", "n1", c, func(c *resourcev1.ResourceClaim) { c.Labels = map[string]string{"a": "b"} }, false},
		{"another driver's entry away", "n1", c, func(c *resourcev1.ResourceClaim) { c.Status.Devices = []resourcev1.AllocatedDeviceStatus{own} }, true},
		{"another driver's entry changed", "n1", c, func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = []resourcev1.AllocatedDeviceStatus{own, entry(nic(), `{"mac":"02:00:00:00:00:02"}`)}
		}, true},
		{"from a foreign node", "n2", c, func(c *resourcev1.ResourceClaim) { c.Status.Devices = append(c.Status.Devices, own) }, true},
		{"from no node", "", c, func(c *resourcev1.ResourceClaim) { c.Status.Devices = append(c.Status.Devices, own) }, true},
		{"a claim of a foreign node", "n1", other, func(c *resourcev1.ResourceClaim) {
			c.Status.Devices = append(c.Status.Devices, entry(ours("n2"), `{}`))
		}, true},
		{"allocation away", "n1", c, func(c *resourcev1.ResourceClaim) { c.Status = resourcev1.ResourceClaimStatus{} }, true},
		{"a pod", "n1", c, func(c *resourcev1.ResourceClaim) {
			c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "u"}}
		}, true},
	} {
		changed := x.claim.DeepCopy()
		x.change(changed)
		got, err := s.driver(t, x.node).ResourceV1().ResourceClaims("apps").UpdateStatus(ctx, changed, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case x.refused && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err):
			t.Errorf("%s: error %v; want a refusal", x.name, err)
		case !x.refused && err != nil:
			t.Errorf("%s: %v", x.name, err)
		case !x.refused && len(got.Labels) > 0:
			t.Errorf("%s: labels %v; want none", x.name, got.Labels)
		}
	}
	// A patch by server-side apply, which leaves the other driver's entry as it is.
	patch := fmt.Sprintf(`{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"both","namespace":"apps"},"status":{"devices":[{"driver":%q,"pool":"n1","device":"numa0","shareID":%q,"data":{"cpus":"2-3","node":0}}]}}`, dra.Driver, *own.ShareID)
	options := metav1.PatchOptions{FieldManager: dra.Driver, Force: ptr.To(true)}
	if _, err := s.driver(t, "n1").ResourceV1().ResourceClaims("apps").Patch(ctx, "both", types.ApplyPatchType, []byte(patch), options, "status"); err != nil {
		t.Fatalf("apply: %v", err)
	}
	got, err := all.Get(ctx, "both", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]resourcev1.AllocatedDeviceStatus{foreign, own}, got.Status.Devices); diff != "" {
		t.Errorf("status.devices: -want +got:\n%s", diff)
	}
	for _, name := range []string{"both", "other"} {
		if err := all.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
