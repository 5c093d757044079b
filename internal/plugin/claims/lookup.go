package claims

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// HasCPUs reports whether the claim of an entry of spec.resourceClaims requests CPUs of the driver. A name of
// a request limits the question to this request. It is false if the files lack the claim or the template.
func (o *Objects) HasCPUs(namespace string, entry *corev1.PodResourceClaim, request string) bool {
	var spec *resourcev1.ResourceClaimSpec
	switch {
	case entry.ResourceClaimName != nil:
		if c := o.claims[namespace+"/"+*entry.ResourceClaimName]; c != nil {
			spec = &c.Spec
		}
	case entry.ResourceClaimTemplateName != nil:
		if t := o.templates[namespace+"/"+*entry.ResourceClaimTemplateName]; t != nil {
			spec = &t.Spec.Spec
		}
	}
	return spec != nil && slices.ContainsFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return (request == "" || request == r.Name) && slices.ContainsFunc(classesOf(&r), o.isCPUs)
	})
}

// isCPUs reports whether a class is the driver's, or a class of the files that names the driver.
func (o *Objects) isCPUs(class string) bool {
	c := o.classes[class]
	return class == dra.Class || c != nil && slices.ContainsFunc(c.Spec.Selectors, func(s resourcev1.DeviceSelector) bool {
		return s.CEL != nil && strings.Contains(s.CEL.Expression, strconv.Quote(dra.Driver))
	})
}

// Fraction is an amount of CPUs that the scheduler rounds up.
type Fraction struct{ Request, Amount string }

// Fractions returns the amounts of a claim, or of a template, that are no whole number of CPUs above 0.
func (o *Objects) Fractions(namespace, name string) (all []Fraction) {
	var requests []resourcev1.DeviceRequest
	if c := o.claims[namespace+"/"+name]; c != nil {
		requests = c.Spec.Devices.Requests
	}
	if t := o.templates[namespace+"/"+name]; t != nil {
		requests = append(slices.Clip(requests), t.Spec.Spec.Devices.Requests...)
	}
	add := func(request, class string, capacity *resourcev1.CapacityRequirements) {
		if capacity == nil || !o.isCPUs(class) {
			return
		}
		if q, has := capacity.Requests[dra.Capacity]; has && (q.Sign() <= 0 || !isWhole(q)) {
			all = append(all, Fraction{request, q.String()})
		}
	}
	for _, r := range requests {
		if r.Exactly != nil {
			add(r.Name, r.Exactly.DeviceClassName, r.Exactly.Capacity)
		}
		for _, alternative := range r.FirstAvailable {
			add(r.Name+"/"+alternative.Name, alternative.DeviceClassName, alternative.Capacity)
		}
	}
	return all
}

func isWhole(q resource.Quantity) bool { return q.CmpInt64(q.Value()) == 0 }
