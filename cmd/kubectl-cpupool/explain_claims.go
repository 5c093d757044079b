package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/claims"
	"github.com/cpupoold/cpupoold/internal/plugin/manifest"
)

// maxClaims is the maximum number of ResourceClaims of a pod that are read.
const maxClaims = 32

// claimsOf returns the containers of a pod that run on CPUs of ResourceClaims, by the name of the claim, and a note
// if claims could not be read.
func claimsOf(ctx context.Context, a *api, pod *corev1.Pod) (used map[string][]string, note string) {
	entries := pod.Spec.ResourceClaims
	if len(entries) == 0 {
		return nil, ""
	}
	const group = "/apis/resource.k8s.io/v1/"
	var known claims.Objects
	items, failed := a.list(ctx, group+"deviceclasses", "application/json")
	if answers(failed, http.StatusNotFound) { // before Kubernetes 1.34 no claim has CPUs
		return nil, ""
	}
	for _, item := range items {
		_ = addObject(&known, item, "") // the API server has checked it
	}
	for _, entry := range entries[:min(len(entries), maxClaims)] {
		path := group + "namespaces/" + url.PathEscape(pod.Namespace)
		switch {
		case entry.ResourceClaimName != nil:
			path += "/resourceclaims/" + url.PathEscape(*entry.ResourceClaimName)
		case entry.ResourceClaimTemplateName != nil:
			path += "/resourceclaimtemplates/" + url.PathEscape(*entry.ResourceClaimTemplateName)
		default:
			continue
		}
		var object json.RawMessage
		err := a.object(ctx, path, &object)
		if err == nil {
			err = addObject(&known, object, pod.Namespace)
		}
		failed = cmp.Or(failed, err)
	}
	if failed != nil {
		note = fmt.Sprintf("the pod's ResourceClaims are not known: %v; this answer is for a pod without them", failed)
	}
	return usedClaims(&known, pod), note
}

func addObject(to *claims.Objects, object json.RawMessage, namespace string) error {
	objects, errs := manifest.Objects(object)
	for i := range objects {
		errs = append(errs, to.Add(&objects[i], namespace))
	}
	return cmp.Or(errs...)
}

// usedClaims returns the containers on CPUs of claims, by the name of the claim. A claim of a template that does not
// exist yet has the name of its entry.
func usedClaims(known *claims.Objects, pod *corev1.Pod) map[string][]string {
	used := map[string][]string{}
	isOn := admission.Settings{Claims: known}.OnClaims(pod)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if !isOn(c.Name) {
			continue
		}
		for _, entry := range pod.Spec.ResourceClaims {
			one := *pod
			one.Spec.ResourceClaims = []corev1.PodResourceClaim{entry}
			if (admission.Settings{Claims: known}).OnClaims(&one)(c.Name) {
				name := nameOfClaim(pod, &entry)
				used[name] = append(used[name], c.Name)
			}
		}
	}
	return used
}

func nameOfClaim(pod *corev1.Pod, entry *corev1.PodResourceClaim) string {
	if entry.ResourceClaimName != nil {
		return *entry.ResourceClaimName
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.Name == entry.Name && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return entry.Name
}
