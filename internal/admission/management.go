package admission

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/workload"
)

// manage returns the pod as one of a workload type. It returns nil and a reason if the pod stays as it is, and an error if the pod is refused.
// The order is OpenShift's: the text of the annotation matters only in namespaces that may use it.
func (s Settings) manage(pod *corev1.Pod, typ string, from Origin) (*corev1.Pod, Reason, error) {
	if s.outside {
		return nil, NodeWithoutDaemon, nil
	}
	if !s.Types[typ] {
		return nil, TypeOff, nil
	}
	if !from.Manifest {
		switch allowed, annotated := s.Names.Allowed(from.Namespace, typ); {
		case !annotated:
			return nil, NamespaceNotAnnotated, nil
		case !allowed:
			return nil, "", s.forbidden(typ)
		}
	}
	if _, _, err := s.Names.Target(pod.Annotations); err != nil {
		return nil, "", &Refusal{Message: err.Error()}
	}
	// The scheduler counts spec.resources instead of the containers' requests, and
	// spec.resources cannot hold an extended resource.
	if r := pod.Spec.Resources; r != nil && has(r, corev1.ResourceCPU) && !defaulted(pod) {
		return nil, PodLevelCPU, nil
	}

	managed := draft(pod)
	if defaulted(pod) {
		managed.Spec.Resources = pod.Spec.Resources.DeepCopy()
		delete(managed.Spec.Resources.Requests, corev1.ResourceCPU)
	}
	claims := make([]claim, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	for _, c := range containers(managed) {
		claim := s.claim(pod.Annotations, &c.Resources, typ, c.Name)
		if claim.moved {
			remove(&c.Resources, corev1.ResourceCPU)
		}
		claims = append(claims, claim)
	}
	before := s.Defaults.class(managed)
	if before == corev1.PodQOSGuaranteed {
		return nil, GuaranteedPod, nil
	}
	pools := s.pools()
	for i, c := range containers(managed) {
		s.release(&c.Resources)
		pools.remove(&c.Resources)
		// As in OpenShift, the resources of BestEffort pods stay.
		claims[i].requested = claims[i].requested && before != corev1.PodQOSBestEffort
		if claims[i].requested {
			remove(&c.Resources, corev1.ResourceCPU)
			set(&c.Resources, s.Names.CoresResource(typ), claims[i].milli)
		}
	}
	if s.Defaults.class(managed) != before {
		return nil, ClassWouldChange, nil
	}

	s.strip(managed)
	metav1.SetMetaDataAnnotation(&managed.ObjectMeta, s.Names.TargetKey(typ), workload.TargetValue)
	for i, c := range containers(managed) {
		if claims[i].requested || before == corev1.PodQOSBestEffort {
			metav1.SetMetaDataAnnotation(&managed.ObjectMeta, s.Names.ResourcesKey(c.Name), claims[i].annotation())
		}
	}
	return managed, "", nil
}

// defaulted reports whether a pod's CPU request can be the sum that the API server
// computes from its containers (defaultPodRequests). Kubernetes 1.34 to 1.36 compute it
// for each pod with a limit in spec.resources, before and after webhooks.
func defaulted(pod *corev1.Pod) bool {
	r := pod.Spec.Resources
	if r == nil || len(r.Limits) == 0 {
		return false
	}
	if _, limited := r.Limits[corev1.ResourceCPU]; limited {
		return false
	}
	own, requested := r.Requests[corev1.ResourceCPU]
	sum, found := together(pod, corev1.ResourceCPU)
	return requested && found && own.Cmp(sum) == 0
}

// claim is the CPU that a container of a workload type asks for.
type claim struct {
	// milli is the request and limit the limit in thousandths of a CPU; 0 if
	// it is not set.
	milli, limit int64
	// requested is true if the container requests CPU, or has a request of 0.
	requested bool
	// moved is true if the request is already a resource of the type. A cpu request
	// of such a container was added later, for example by a LimitRange, instead of
	// the request that was moved.
	moved bool
}

// annotation returns the value of the annotation that the node reads for a container.
func (c claim) annotation() string {
	return workload.Resources{Shares: workload.MilliCPUToShares(c.milli), LimitMilli: c.limit}.Encode()
}

// claim reads the claim of a container with resources r. A resource and an annotation
// with the same amount come from manage, or are as good: the scheduler counts the whole
// amount.
func (s Settings) claim(annotations map[string]string, r *corev1.ResourceRequirements, typ, container string) claim {
	resource := corev1.ResourceName(s.Names.CoresResource(typ))
	cores := count(request(r, resource))
	if has(r, resource) {
		a, found, err := s.Names.ContainerResources(annotations, typ, container)
		if found && err == nil && a.Shares == workload.MilliCPUToShares(cores) {
			return claim{milli: cores, limit: a.LimitMilli, requested: true, moved: true}
		}
	}
	limit := milliCPU(r.Limits[corev1.ResourceCPU])
	if limit == workload.MaxMilliCPU {
		limit = 0 // more than any machine has
	}
	if milli := milliCPU(request(r, corev1.ResourceCPU)); milli > 0 {
		return claim{milli: milli, limit: limit, requested: true}
	}
	return claim{milli: cores, limit: limit, requested: has(r, corev1.ResourceCPU) || has(r, resource)}
}

// release removes the resources of all workload types. It returns the largest
// amount, in thousandths of a CPU, and its type, the last one in the alphabet if
// several are as large.
func (s Settings) release(r *corev1.ResourceRequirements) (milli int64, typ string) {
	for _, list := range []corev1.ResourceList{r.Requests, r.Limits} {
		for name, q := range list {
			t, ok := s.Names.CoresType(string(name))
			if !ok {
				continue
			}
			delete(list, name)
			if n := count(q); n > milli || n == milli && t > typ {
				milli, typ = n, t
			}
		}
	}
	return milli, typ
}
