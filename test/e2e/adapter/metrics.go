package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider"
	"sigs.k8s.io/custom-metrics-apiserver/pkg/provider/helpers"
)

// utilizationMetric is the name of the one metric of pods: 1 is a use of all CPUs that the pod's
// containers have requested.
const utilizationMetric = "management_cpu_utilization"

// podMetrics implements provider.CustomMetricsProvider.
type podMetrics struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	usage  *usage
}

func podsInfo(metric string) provider.CustomMetricInfo {
	return provider.CustomMetricInfo{GroupResource: schema.GroupResource{Resource: "pods"}, Namespaced: true, Metric: metric}
}

// ListAllMetrics implements provider.CustomMetricsProvider.
func (m *podMetrics) ListAllMetrics() []provider.CustomMetricInfo {
	return []provider.CustomMetricInfo{podsInfo(utilizationMetric)}
}

// GetMetricByName implements provider.CustomMetricsProvider.
func (m *podMetrics) GetMetricByName(_ context.Context, name types.NamespacedName, info provider.CustomMetricInfo, _ labels.Selector) (*custom_metrics.MetricValue, error) {
	if info != podsInfo(utilizationMetric) {
		return nil, provider.NewMetricNotFoundError(info.GroupResource, info.Metric)
	}
	use, known := m.usage.of(name)
	ratio, requested := use.utilization()
	if !known || !requested {
		return nil, provider.NewMetricNotFoundForError(info.GroupResource, info.Metric, name.Name)
	}
	pod, err := helpers.ReferenceFor(m.mapper, name, info)
	if err != nil {
		return nil, fmt.Errorf("name pod %s: %w", name, err)
	}
	seconds := int64(math.Ceil(use.over.Seconds()))
	return &custom_metrics.MetricValue{
		DescribedObject: pod, Metric: custom_metrics.MetricIdentifier{Name: info.Metric},
		Timestamp: metav1.Time{Time: use.at}, WindowSeconds: &seconds, Value: *milli(ratio),
	}, nil
}

// GetMetricBySelector implements provider.CustomMetricsProvider. Pods without a value are missing in
// the list.
func (m *podMetrics) GetMetricBySelector(
	ctx context.Context, namespace string, selector labels.Selector, info provider.CustomMetricInfo, metricSelector labels.Selector,
) (*custom_metrics.MetricValueList, error) {
	names, err := m.names(namespace, selector)
	if err != nil {
		return nil, err
	}
	list := &custom_metrics.MetricValueList{}
	for _, name := range names {
		if value, err := m.GetMetricByName(ctx, types.NamespacedName{Namespace: namespace, Name: name}, info, metricSelector); err == nil {
			list.Items = append(list.Items, *value)
		}
	}
	return list, nil
}

// names returns the names of a namespace's pods that match a selector.
func (m *podMetrics) names(namespace string, selector labels.Selector) ([]string, error) {
	return helpers.ListObjectNames(m.mapper, m.client, namespace, selector, podsInfo(""))
}

func milli(value float64) *resource.Quantity {
	return resource.NewMilliQuantity(int64(math.Round(value*1000)), resource.DecimalSI)
}

// resourcePath is the API of resource metrics, which metrics-server serves elsewhere.
const resourcePath = "/apis/metrics.k8s.io/v1beta1"

// resourceMetrics serves the CPU use of pods as resource metrics: discovery, and lists of pods.
type resourceMetrics struct{ *podMetrics }

// ServeHTTP implements http.Handler.
func (m resourceMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(strings.TrimPrefix(r.URL.Path, resourcePath), "/"), "/")
	switch {
	case parts[0] == "":
		write(w, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "metrics.k8s.io/v1beta1",
			APIResources: []metav1.APIResource{{Name: "pods", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"list"}}},
		})
	case len(parts) == 3 && parts[0] == "namespaces" && parts[2] == "pods":
		m.list(w, parts[1], r.URL.Query().Get("labelSelector"))
	default:
		http.NotFound(w, r)
	}
}

func (m resourceMetrics) list(w http.ResponseWriter, namespace, selector string) {
	matches, err := labels.Parse(selector)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	names, err := m.names(namespace, matches)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	list := metricsv1beta1.PodMetricsList{TypeMeta: metav1.TypeMeta{Kind: "PodMetricsList", APIVersion: "metrics.k8s.io/v1beta1"}}
	for _, name := range names {
		use, known := m.usage.of(types.NamespacedName{Namespace: namespace, Name: name})
		if !known {
			continue
		}
		pod := metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Timestamp: metav1.Time{Time: use.at}, Window: metav1.Duration{Duration: use.over},
		}
		for container, cpus := range use.used {
			pod.Containers = append(pod.Containers, metricsv1beta1.ContainerMetrics{Name: container, Usage: corev1.ResourceList{corev1.ResourceCPU: *milli(cpus)}})
		}
		list.Items = append(list.Items, pod)
	}
	write(w, list)
}

func write(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client has gone if this fails
}
