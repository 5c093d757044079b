package admission

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// WithLimitRanges returns the pod as webhooks see it in a namespace with these LimitRanges.
// LimitRanger runs before webhooks, and after the API server has made each limit without a
// request the request, too (kubernetes 1.37.0, plugin/pkg/admission/limitranger). The pod
// itself does not change.
func WithLimitRanges(pod *corev1.Pod, ranges []corev1.LimitRange) *corev1.Pod {
	for i := range ranges {
		limits, requests := defaultsOf(&ranges[i])
		if len(limits)+len(requests) == 0 {
			continue
		}
		pod = draft(pod)
		for _, c := range containers(pod) {
			r := &c.Resources
			add(&r.Requests, r.Limits)
			add(&r.Requests, requests)
			add(&r.Limits, limits)
		}
	}
	return pod
}

// defaultsOf returns the limits and requests of containers without any. A maximum is the
// default of the limit, and both the limit and the minimum are defaults of the request
// (kubernetes 1.37.0, pkg/apis/core/v1/defaults.go, SetDefaults_LimitRangeItem).
func defaultsOf(l *corev1.LimitRange) (limits, requests corev1.ResourceList) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		ofLimit, ofRequest := maps.Clone(item.Default), maps.Clone(item.DefaultRequest)
		add(&ofLimit, item.Max)
		add(&ofRequest, ofLimit)
		add(&ofRequest, item.Min)
		add(&limits, ofLimit)
		add(&requests, ofRequest)
	}
	return limits, requests
}

// add puts the amounts of further resources into a list.
func add(to *corev1.ResourceList, from corev1.ResourceList) {
	for name, q := range from {
		if _, has := (*to)[name]; !has {
			put(to, name, q)
		}
	}
}
