package lint

import (
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// lookClaims keeps the objects of resource.k8s.io, and counts the pods of each claim.
func (l *linter) lookClaims(o *manifest.Object) {
	if claims.Reads(o) {
		_ = l.claims.Add(o, l.Namespace) // checkClaim reports an error
		return
	}
	if o.Pod == nil {
		return
	}
	var names []string
	for _, entry := range o.Pod.Spec.ResourceClaims {
		if name := entry.ResourceClaimName; name != nil && !slices.Contains(names, *name) {
			names = append(names, *name)
			number, _ := o.Replicas() // another check reports the error
			if o.Kind == "DaemonSet" && !o.Shaped {
				number = 2 // for several
			}
			l.claimPods[l.namespace()+"/"+*name] += number
		}
	}
}

// checkClaim finds amounts of CPUs in a claim or template that the scheduler changes.
func (l *linter) checkClaim() {
	var alone claims.Objects
	if err := alone.Add(&l.object, l.Namespace); err != nil {
		l.find(l.object.Line("metadata"), "it cannot be read: "+err.Error(), "correct it")
		return
	}
	if l.object.Kind != "ResourceClaim" && l.object.Kind != "ResourceClaimTemplate" {
		return
	}
	for _, field := range l.object.Unknown(claims.TypeOf(l.object.Kind)) {
		l.find(l.object.Line("spec"), fmt.Sprintf("Kubernetes 1.37 does not know field %s, and the API server removes it", field), "correct its name, or remove it")
	}
	for _, f := range l.claims.Fractions(l.namespace(), l.object.Name) {
		l.find(l.object.Line("spec"), fmt.Sprintf("request %s is for %s CPUs, and the scheduler rounds it up to whole CPUs or cores", f.Request, f.Amount), "write a whole number of CPUs")
	}
}

// checkPodClaims finds containers without the claim that they name, claims with CPUs for several pods, and containers
// that request a CPU or more in addition to a claim with CPUs.
func (l *linter) checkPodClaims() {
	pod := l.object.Pod
	entries := map[string]*corev1.PodResourceClaim{}
	for i := range pod.Spec.ResourceClaims {
		entry := &pod.Spec.ResourceClaims[i]
		entries[entry.Name] = entry
		use := l.claims.UseOf(l.namespace(), entry, "")
		if name := entry.ResourceClaimName; name != nil && l.claimPods[l.namespace()+"/"+*name] > 1 && (use == cpuclaim.CPUs || use == cpuclaim.Unclear) {
			l.find(l.object.PodLine("spec", "resourceClaims", entry.Name), fmt.Sprintf("claim %s has CPUs, which are for one pod, and several pods use it", strconv.Quote(*name)),
				"write a ResourceClaimTemplate, and resourceClaimTemplateName here")
		}
	}
	isOn := l.Admission.OnClaims(pod)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, ref := range c.Resources.Claims {
			if entries[ref.Name] == nil {
				l.find(l.containerLine(c.Name), fmt.Sprintf("container %s uses claim %s, and spec.resourceClaims does not have it, so the API server refuses the pod", strconv.Quote(c.Name), strconv.Quote(ref.Name)),
					"add an entry with this name to spec.resourceClaims, or correct the name")
			}
		}
		if cpu := requestedCPU(&c.Resources); isOn(c.Name) && cpu.CmpInt64(1) >= 0 {
			l.find(l.containerLine(c.Name), fmt.Sprintf("container %s runs on the CPUs of its claim alone, and its request of cpu: %s counts in addition", strconv.Quote(c.Name), cpu),
				"request cpu: 1m, or remove the claim")
		}
	}
}

// requestedCPU returns the CPU request of a container or a pod. The API server uses the limit if there is no request.
func requestedCPU(r *corev1.ResourceRequirements) *resource.Quantity {
	if q, ok := r.Requests[corev1.ResourceCPU]; ok {
		return &q
	}
	return r.Limits.Cpu()
}
