//go:build apiserver

package claims_test

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// testPolicies checks the rules of the API for capacities, on which internal/dra relies.
func testPolicies(t *testing.T, s *apiServer) {
	for _, c := range []struct {
		name, capacity, def, min, step string
		want                           string // part of the refusal; empty: accepted
	}{
		{"cores", "4", "2", "2", "2", ""},
		{"one core", "2", "2", "2", "", ""},
		{"one core, with a step", "2", "2", "2", "2", "one step"},
		{"one CPU", "1", "1", "1", "", ""},
		{"one CPU, with a step", "1", "1", "1", "1", "one step"},
		{"an uneven number", "3", "2", "2", "2", "one step"},
		{"default below min", "4", "1", "2", "2", "default is less"},
		{"default between two steps", "6", "3", "2", "2", "not a multiple"},
		{"min beyond the capacity", "2", "4", "4", "", "min is larger"},
	} {
		_, err := s.driver(t, "n1").ResourceV1().ResourceSlices().Create(t.Context(), with(func(s *resourcev1.ResourceSlice) {
			of := resource.MustParse
			policy := &resourcev1.CapacityRequestPolicy{Default: ptr.To(of(c.def)), ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: ptr.To(of(c.min))}}
			if c.step != "" {
				policy.ValidRange.Step = ptr.To(of(c.step))
			}
			s.Spec.Devices[0].Capacity[dra.Capacity] = resourcev1.DeviceCapacity{Value: of(c.capacity), RequestPolicy: policy}
		}), dryRun())
		check(t, c.name, err, c.want)
	}
}

// testRequests checks which amounts the API takes in claims, and that the driver refuses the results that an
// allocation cannot have.
func testRequests(t *testing.T, s *apiServer) {
	users := s.client(t, admin, "").ResourceV1().ResourceClaims("apps")
	for _, amount := range []string{"", "1", "0", "-1", "1500m", "9223372036854775808", "9223372036854775807", "1E30", "1n"} {
		if _, err := users.Create(t.Context(), claim("request", amount), dryRun()); err != nil {
			t.Errorf("request of %q: %v; Kubernetes 1.37 takes it", amount, err)
		}
	}
	for amount, want := range map[string]string{"1": "", "4096": "", "0": "whole number", "-1": "whole number", "1500m": "whole number", "9223372036854775808": "whole number", "1E30": "whole number", "4294967297": "whole number"} {
		result := ours("n1")
		result.ConsumedCapacity[dra.Capacity] = resource.MustParse(amount)
		c := s.allocated(t, "amount", "n1", result)
		_, err := dra.Parts(c, "n1")
		check(t, "allocation of "+amount, err, want)
		if err := users.Delete(t.Context(), c.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Administrative access needs a label of the namespace.
	c := claim("admin", "2")
	c.Spec.Devices.Requests[0].Exactly.AdminAccess = ptr.To(true)
	if _, err := users.Create(t.Context(), c, dryRun()); err == nil || !strings.Contains(err.Error(), "admin-access") {
		t.Errorf("claim with adminAccess: error %v; want a refusal in a namespace without the label", err)
	}
	all := claim("all", "")
	all.Spec.Devices.Requests[0].Exactly.AllocationMode = resourcev1.DeviceAllocationModeAll
	if _, err := users.Create(t.Context(), all, dryRun()); err != nil {
		t.Errorf("claim for all devices: %v", err)
	}
}
