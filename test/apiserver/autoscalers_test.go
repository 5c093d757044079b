//go:build apiserver

package apiserver_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
)

// warned holds the warnings that a client gets.
type warned []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warned) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// autoscalers checks the warnings about autoscalers of a Deployment in namespace infra, whose pods are of a workload type. The kinds
// that are not a part of Kubernetes are custom resources.
func autoscalers(t *testing.T, s *apiServer) {
	labels := map[string]string{"app": "agent"}
	pod := newPod("", management(), "cpu=400m memory=1Gi")
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: management()}, Spec: pod.Spec},
	}}
	if _, err := s.client(t, admin).AppsV1().Deployments("infra").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const target = "{apiVersion: apps/v1, kind: Deployment, name: agent}"
	for _, c := range []struct {
		name, group, version, kind, resource, spec string
		warns                                      bool
	}{
		{"metric", "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
			"{scaleTargetRef: " + target + ", maxReplicas: 2, metrics: [{type: Pods, pods: {metric: {name: m}, target: {type: AverageValue, averageValue: 1}}}]}", false},
		{"utilization", "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
			"{scaleTargetRef: " + target + ", maxReplicas: 2, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]}", true},
		{"first-version", "autoscaling", "v1", "HorizontalPodAutoscaler", "horizontalpodautoscalers",
			"{scaleTargetRef: " + target + ", maxReplicas: 2, targetCPUUtilizationPercentage: 80}", true},
		{"no-metrics", "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "{scaleTargetRef: " + target + ", maxReplicas: 2}", true},
		{"keda", "keda.sh", "v1alpha1", "ScaledObject", "scaledobjects", "{scaleTargetRef: {name: agent}, triggers: [{type: cpu, metricType: Utilization}]}", true},
		{"vertical", "autoscaling.k8s.io", "v1", "VerticalPodAutoscaler", "verticalpodautoscalers", "{targetRef: " + target + "}", true},
	} {
		if c.group != "autoscaling" {
			apply(t, s, c.name, fmt.Appendf(nil, `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: %s.%s,
  annotations: {api-approved.kubernetes.io: unapproved}}, spec: {group: %[2]s, scope: Namespaced, names: {plural: %[1]s, kind: %[3]s},
  versions: [{name: %[4]s, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
				c.resource, c.group, c.kind, c.version))
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(fmt.Appendf(nil, "{apiVersion: %s/%s, kind: %s, metadata: {name: %s}, spec: %s}", c.group, c.version, c.kind, c.name, c.spec), &object.Object); err != nil {
			t.Fatal(err)
		}
		var got warned
		config := s.config(admin)
		config.WarningHandler = &got
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		objects := client.Resource(schema.GroupVersionResource{Group: c.group, Version: c.version, Resource: c.resource}).Namespace("infra")
		eventually(t, "create "+c.name, func(ctx context.Context) error {
			_, err := objects.Create(ctx, &object, metav1.CreateOptions{})
			if err != nil && !apierrors.IsNotFound(err) { // the API server serves a new kind after a moment
				t.Fatalf("create %s: %v", c.name, err)
			}
			return err
		})
		of := slices.DeleteFunc(got, func(text string) bool { return !strings.HasPrefix(text, c.kind+" "+c.name+" ") })
		if (len(of) == 1) != c.warns || len(of) > 1 {
			t.Errorf("%s: warnings = %q; want a warning is %v", c.name, got, c.warns)
		}
	}
}
