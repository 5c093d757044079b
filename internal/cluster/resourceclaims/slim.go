package resourceclaims

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

// slim is a claim, a template or a class in a store.
type slim struct {
	namespace, name string
	requests        []cpuclaim.Request // of a claim or template
	class           cpuclaim.Class
}

// GetObjectMeta implements metav1.ObjectMetaAccessor, by which the store finds the key.
func (s *slim) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: s.namespace, Name: s.name}
}

// transform removes the fields that the webhook does not use. The text of an object is in one piece of memory, so
// it copies the names.
func transform(o any) (any, error) {
	switch o := o.(type) {
	case *resourcev1.ResourceClaim:
		return newSlim(o, cpuclaim.Requests(&o.Spec), cpuclaim.Class{}), nil
	case *resourcev1.ResourceClaimTemplate:
		return newSlim(o, cpuclaim.Requests(&o.Spec.Spec), cpuclaim.Class{}), nil
	case *resourcev1.DeviceClass:
		return newSlim(o, nil, cpuclaim.ClassOf(o)), nil
	}
	return o, nil // the store transforms some objects twice
}

func newSlim(o metav1.Object, requests []cpuclaim.Request, class cpuclaim.Class) *slim {
	return &slim{strings.Clone(o.GetNamespace()), strings.Clone(o.GetName()), requests, class}
}
