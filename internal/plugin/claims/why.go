package claims

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// why returns the reason why claims cannot be allocated. The allocator gives none, so why asks it for
// less: for one claim, then for one request, then without constraints.
func (s *Scheduler) why(claims []*resourcev1.ResourceClaim) error {
	for _, c := range claims {
		if s.fits(c, s.state()) {
			continue
		}
		for i := range c.Spec.Devices.Requests {
			if one := only(c, c.Spec.Devices.Requests[i]); !s.fits(one, s.state()) {
				return unschedulable("claim %s, request %s: %s", key(c), c.Spec.Devices.Requests[i].Name, s.whyRequest(one))
			}
		}
		if !s.fits(only(c, c.Spec.Devices.Requests...), s.state()) {
			return unschedulable("claim %s: each request fits alone, and not all together; %s", key(c), s.left())
		}
		var rules []string
		for _, r := range c.Spec.Devices.Constraints {
			rules = append(rules, constraint(&r))
		}
		return unschedulable("claim %s: devices for each request are free, but no choice of them has %s%s; %s",
			key(c), strings.Join(rules, ", "), s.ever(c), s.left())
	}
	return unschedulable("the claims %s fit one by one, and not all together; %s", names(claims), s.left())
}

// fits reports whether a claim can be allocated alone.
func (s *Scheduler) fits(c *resourcev1.ResourceClaim, state structured.AllocatedState) bool {
	results, err := s.search([]*resourcev1.ResourceClaim{c}, state, s.slices)
	return err == nil && results != nil
}

// only returns the claim with some of its requests, and without constraints.
func only(c *resourcev1.ResourceClaim, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	one := c.DeepCopy()
	one.Spec.Devices = resourcev1.DeviceClaim{Requests: requests}
	return one
}

// ever returns the end of a sentence if a claim has no devices on a node without other claims.
func (s *Scheduler) ever(c *resourcev1.ResourceClaim) string {
	if s.fits(c, noState()) {
		return ""
	}
	return ", also without other claims"
}

// whyRequest returns the reason why the only request of a claim has no devices.
func (s *Scheduler) whyRequest(c *resourcev1.ResourceClaim) string {
	r := &c.Spec.Devices.Requests[0]
	text, free := "no device", " is free"
	if r.Exactly != nil && r.Exactly.Count > 1 {
		text, free = fmt.Sprintf("fewer than %d devices", r.Exactly.Count), " are free"
	}
	text += " of class " + strings.Join(slices.Compact(classesOf(r)), " or ")
	if r.Exactly != nil && len(r.Exactly.Selectors) > 0 {
		text += " and of the selectors"
	}
	if r.Exactly != nil && r.Exactly.Capacity != nil {
		for _, name := range slices.Sorted(maps.Keys(r.Exactly.Capacity.Requests)) {
			q := r.Exactly.Capacity.Requests[name]
			text += " with " + amountOf(q.String(), name)
		}
	}
	text += free + s.ever(c)
	switch {
	case !s.selectsCPUs(r):
		return text
	case len(s.slices[0].Spec.Devices) == 0:
		return text + "; the node has no CPUs for claims: set guaranteed.claims.cpus in its configuration"
	}
	return text + "; " + s.left()
}

func amountOf(amount string, name resourcev1.QualifiedName) string {
	switch {
	case name != dra.Capacity:
		return amount + " of " + string(name)
	case amount == "1":
		return "1 CPU"
	}
	return amount + " CPUs"
}

// selectsCPUs reports whether the class of a request selects devices of the driver.
func (s *Scheduler) selectsCPUs(r *resourcev1.DeviceRequest) bool {
	for _, class := range classesOf(r) {
		c := &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "any", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}}}
		own := s.slices[0]
		if len(own.Spec.Devices) == 0 {
			own = dra.Slice(s.node.Name, []resourcev1.Device{{Name: "any"}})
		}
		if results, err := s.search([]*resourcev1.ResourceClaim{c}, noState(), []*resourcev1.ResourceSlice{own}); err == nil && results != nil {
			return true
		}
	}
	return false
}

// left returns the CPUs of each device of the driver that no claim has.
func (s *Scheduler) left() string {
	devices, used := s.slices[0].Spec.Devices, s.state().AggregatedCapacity
	if len(devices) == 0 {
		return "the node has no CPUs for claims"
	}
	var all []string
	for i := range devices {
		total := devices[i].Capacity[dra.Capacity].Value
		free := total.DeepCopy()
		if n := used[structured.MakeDeviceID(dra.Driver, s.node.Name, devices[i].Name)][dra.Capacity]; n != nil {
			free.Sub(*n)
		}
		if free.Sign() < 0 { // CPUs are offline
			free = resource.Quantity{}
		}
		all = append(all, fmt.Sprintf("%s %s of %s", devices[i].Name, free.String(), total.String()))
	}
	return "free CPUs: " + strings.Join(all, ", ")
}

// constraint returns a constraint as in a sentence.
func constraint(c *resourcev1.DeviceConstraint) string {
	of := "all requests"
	if len(c.Requests) > 0 {
		of = strings.Join(c.Requests, ", ")
	}
	switch {
	case c.MatchAttribute != nil:
		return fmt.Sprintf("one value of %s (matchAttribute of %s)", *c.MatchAttribute, of)
	case c.DistinctAttribute != nil:
		return fmt.Sprintf("different values of %s (distinctAttribute of %s)", *c.DistinctAttribute, of)
	}
	return "a constraint of " + of
}

func names(claims []*resourcev1.ResourceClaim) string {
	all := make([]string, len(claims))
	for i, c := range claims {
		all[i] = key(c)
	}
	return strings.Join(all, ", ")
}
