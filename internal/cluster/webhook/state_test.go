package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// TestLatches checks the resources whose latch is closed or closes. TestLacks in package
// admission has the states of nodes.
func TestLatches(t *testing.T) {
	const cores, shared, guaranteed = "management.workload.openshift.io/cores", "openshift.io/shared-cpus", "openshift.io/guaranteed-cpus"
	switches := admission.Switches{
		Types:      map[string]admission.Switch{"management": admission.SwitchAuto, "night": admission.SwitchOff},
		SharedCPUs: admission.SwitchAuto, GuaranteedCPUs: admission.SwitchAuto,
	}
	closes, open := admission.Lack{Schedulable: 2}, admission.Lack{Schedulable: 2, Nodes: 1, Example: "n1"}
	lacks := func(inCores, inShared, inGuaranteed admission.Lack) map[string]admission.Lack {
		return map[string]admission.Lack{cores: inCores, shared: inShared, guaranteed: inGuaranteed, "night.workload.openshift.io/cores": closes}
	}
	for name, c := range map[string]struct {
		stored  map[string]string
		lacks   map[string]admission.Lack
		latched map[string]bool
		closing []string
	}{
		"no node":            {nil, nil, map[string]bool{}, nil},
		"a node lacks all":   {nil, lacks(open, open, open), map[string]bool{}, nil},
		"nodes lack nothing": {nil, lacks(closes, closes, closes), map[string]bool{}, []string{cores, guaranteed, shared}},
		"guaranteed first":   {nil, lacks(open, open, closes), map[string]bool{}, []string{guaranteed}},
		"one is stored": {
			map[string]string{"management.workload.openshift.io_cores": ""}, lacks(closes, closes, open),
			map[string]bool{cores: true}, []string{shared},
		},
		"all are stored, a node joins": {
			map[string]string{"management.workload.openshift.io_cores": "x", "openshift.io_shared-cpus": "x", "openshift.io_guaranteed-cpus": "x"},
			lacks(open, open, open), map[string]bool{cores: true, shared: true, guaranteed: true}, nil,
		},
		"off stays off": {map[string]string{"night.workload.openshift.io_cores": "x"}, lacks(open, open, open), map[string]bool{}, nil},
	} {
		latched, closing := latches(switches, c.stored, c.lacks)
		if diff := cmp.Diff(c.latched, latched); diff != "" {
			t.Errorf("%s: latched (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.closing, closing); diff != "" {
			t.Errorf("%s: closing (-want +got):\n%s", name, diff)
		}
	}
}

// TestSlimNodeKeepsReport checks that the cache keeps the daemon's condition, and no other condition.
func TestSlimNodeKeepsReport(t *testing.T) {
	slim := slimNode(admission.Switches{})
	for name, c := range map[string]struct {
		conditions []corev1.NodeCondition
		want       bool
	}{
		"none":     {nil, false},
		"another":  {[]corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}, false},
		"ready":    {[]corev1.NodeCondition{{Type: corev1.NodeReady}, {Type: "CPUPoolsReady", Status: "True", Message: "x"}}, true},
		"starting": {[]corev1.NodeCondition{{Type: "CPUPoolsReady", Status: "False"}}, true},
	} {
		got, err := slim(&corev1.Node{Status: corev1.NodeStatus{Conditions: c.conditions}})
		if err != nil {
			t.Fatal(err)
		}
		n, ok := got.(*corev1.Node)
		if !ok || reported(n) != c.want || len(n.Status.Conditions) > 1 || c.want && n.Status.Conditions[0].Message != "" {
			t.Errorf("%s: the cache keeps %+v, want the daemon's condition: %t", name, got, c.want)
		}
	}
}

func TestCachesKeepLittle(t *testing.T) {
	one := resource.MustParse("1000")
	switches := admission.Switches{SharedCPUs: admission.SwitchAuto}
	node, err := slimNode(switches)(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "5", Labels: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{Unschedulable: true, PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": one, "openshift.io/shared-cpus": one}, Images: []corev1.ContainerImage{{Names: []string{"x"}}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "5"},
		Spec:       corev1.NodeSpec{Unschedulable: true},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{"openshift.io/shared-cpus": one}},
	}
	if diff := cmp.Diff(want, node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	namespace := namespaceKind()
	namespace.Name, namespace.Labels = "x", map[string]string{"a": "b"}
	namespace.Annotations = map[string]string{"workload.openshift.io/allowed": "management", corev1.LastAppliedConfigAnnotation: "{}"}
	got, err := slimNamespace(namespace)
	if err != nil {
		t.Fatal(err)
	}
	slim := namespaceKind()
	slim.Name, slim.Annotations = "x", map[string]string{"workload.openshift.io/allowed": "management"}
	if diff := cmp.Diff(slim, got); diff != "" {
		t.Errorf("namespace (-want +got):\n%s", diff)
	}
	if len(namespace.Annotations) != 2 {
		t.Error("the namespace itself was changed")
	}
}
