package claims

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
	"github.com/cpupoold/cpupoold/internal/dra"
)

// UseOf returns the use of the claim of an entry of spec.resourceClaims, as the webhook finds it in a cluster. Files
// seldom contain DeviceClasses, so an absent class is another driver's.
func (o *Objects) UseOf(namespace string, entry *corev1.PodResourceClaim, request string) cpuclaim.Use {
	spec := o.specOf(namespace, entry)
	if spec == nil {
		return cpuclaim.Unknown
	}
	return cpuclaim.UseOf(cpuclaim.Requests(spec), request, o.class)
}

// UseOfResource returns the use of an extended resource.
func (o *Objects) UseOfResource(name string) cpuclaim.Use {
	return cpuclaim.UseOfResource(name, o.class, func(resource string) (all []cpuclaim.Class) {
		for _, c := range o.classes {
			if of := cpuclaim.ClassOf(c); of.Resource == resource {
				all = append(all, of)
			}
		}
		return all
	})
}

// specOf returns the spec of a claim or template; nil if the files do not have it.
func (o *Objects) specOf(namespace string, entry *corev1.PodResourceClaim) *resourcev1.ResourceClaimSpec {
	namespace = cmp.Or(namespace, metav1.NamespaceDefault)
	if name := entry.ResourceClaimName; name != nil && o.claims[namespace+"/"+*name] != nil {
		return &o.claims[namespace+"/"+*name].Spec
	}
	if name := entry.ResourceClaimTemplateName; name != nil && o.templates[namespace+"/"+*name] != nil {
		return &o.templates[namespace+"/"+*name].Spec.Spec
	}
	return nil
}

func (o *Objects) class(name string) (cpuclaim.Class, bool) {
	c := o.classes[name]
	if c == nil { // the empty selector stands for the selector of the other driver
		c = &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.DeviceClassSpec{Selectors: make([]resourcev1.DeviceSelector, 1)}}
	}
	return cpuclaim.ClassOf(c), true
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
	add := func(request string, capacity *resourcev1.CapacityRequirements) {
		if capacity == nil {
			return
		}
		if q, has := capacity.Requests[dra.Capacity]; has && (q.Sign() <= 0 || q.CmpInt64(q.Value()) != 0) {
			all = append(all, Fraction{request, q.String()})
		}
	}
	for _, r := range requests {
		if r.Exactly != nil {
			add(r.Name, r.Exactly.Capacity)
		}
		for _, alternative := range r.FirstAvailable {
			add(r.Name+"/"+alternative.Name, alternative.Capacity)
		}
	}
	return all
}
