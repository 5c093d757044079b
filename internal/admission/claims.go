package admission

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

// Claims knows the ResourceClaims of a cluster, or of files. A container with CPUs of claims runs on these alone,
// so its cpu request counts for no pool.
type Claims interface {
	// UseOf returns the use of the claim of an entry of spec.resourceClaims, or of one of its requests.
	UseOf(namespace string, entry *corev1.PodResourceClaim, request string) cpuclaim.Use
	// UseOfResource returns the use of an extended resource. It is Other for a resource of no DeviceClass.
	UseOfResource(name string) cpuclaim.Use
}

// claimed are the claims with CPUs of a pod. The zero value is for a pod without claims.
type claimed struct {
	// containers are the names of the containers that run on CPUs of claims.
	containers map[string]bool
	// any is true if a container refers to such a claim. It may use another request of the claim.
	any bool
	// warnings has the first claim of each reason for which it is not clear whether it is for CPUs.
	warnings []Warning
}

// OnClaims reports whether containers of a pod run on CPUs of claims. The function takes the name of one.
func (s Settings) OnClaims(pod *corev1.Pod) func(container string) bool {
	all := s.claimed(pod)
	return func(container string) bool { return all.containers[container] }
}

// claimed returns the claims with CPUs of a pod.
func (s Settings) claimed(pod *corev1.Pod) (all claimed) {
	if s.Claims == nil {
		return all
	}
	entries := make(map[string]*corev1.PodResourceClaim, len(pod.Spec.ResourceClaims))
	for i := range pod.Spec.ResourceClaims {
		entries[pod.Spec.ResourceClaims[i].Name] = &pod.Spec.ResourceClaims[i]
	}
	for _, c := range containers(pod) {
		var isOn bool
		var unclear []Warning
		note := func(use cpuclaim.Use, subject string) {
			switch use {
			case cpuclaim.CPUs:
				isOn = true
			case cpuclaim.Unclear:
				unclear = append(unclear, Warning{Reason: ClaimUnclear, Subject: subject})
			case cpuclaim.Unknown:
				unclear = append(unclear, Warning{Reason: ClaimUnknown, Subject: subject})
			}
		}
		for _, ref := range c.Resources.Claims {
			if e := entries[ref.Name]; e != nil { // the API server refuses a pod without the entry
				note(s.Claims.UseOf(pod.Namespace, e, ref.Request), e.Name)
				all.any = all.any || s.Claims.UseOf(pod.Namespace, e, "") == cpuclaim.CPUs
			}
		}
		for _, list := range []corev1.ResourceList{c.Resources.Requests, c.Resources.Limits} {
			for _, name := range slices.Sorted(maps.Keys(list)) {
				if q := list[name]; q.Sign() > 0 {
					note(s.Claims.UseOfResource(string(name)), string(name))
				}
			}
		}
		switch {
		case isOn:
			if all.containers == nil {
				all.containers = map[string]bool{}
			}
			all.containers[c.Name], all.any = true, true
		case requestOf(c) > 0: // its request counts
			for _, w := range unclear { // one for each reason: a pod can have thousands of claims
				if !slices.ContainsFunc(all.warnings, func(had Warning) bool { return had.Reason == w.Reason }) {
					all.warnings = append(all.warnings, w)
				}
			}
		}
	}
	return all
}
