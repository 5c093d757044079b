package webhook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

func TestLatches(t *testing.T) {
	const cores, shared = "management.workload.openshift.io/cores", "openshift.io/shared-cpus"
	one := resource.MustParse("1000")
	both := admission.Node{Allocatable: corev1.ResourceList{cores: one, shared: one}}
	nothing := admission.Node{}
	switches := admission.Switches{
		Types:      map[string]admission.Switch{"management": admission.SwitchAuto, "night": admission.SwitchOff},
		SharedCPUs: admission.SwitchAuto, GuaranteedCPUs: admission.SwitchAuto,
	}
	for name, c := range map[string]struct {
		stored  map[string]string
		nodes   []admission.Node
		latched map[string]bool
		closing []string
	}{
		"no node":        {nil, nil, map[string]bool{}, nil},
		"not everywhere": {nil, []admission.Node{both, nothing}, map[string]bool{}, nil},
		"everywhere":     {nil, []admission.Node{both, both}, map[string]bool{}, []string{cores, shared}},
		"stored": {
			map[string]string{"management.workload.openshift.io_cores": ""},
			[]admission.Node{both, both}, map[string]bool{cores: true}, []string{shared},
		},
		"stored, a newcomer": {
			map[string]string{"management.workload.openshift.io_cores": "x", "openshift.io_shared-cpus": "x"},
			[]admission.Node{both, nothing}, map[string]bool{cores: true, shared: true}, nil,
		},
		"off stays off": {map[string]string{"night.workload.openshift.io_cores": "x"}, nil, map[string]bool{}, nil},
	} {
		latched, closing := latches(switches, c.stored, c.nodes)
		if diff := cmp.Diff(c.latched, latched); diff != "" {
			t.Errorf("%s: latched (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.closing, closing); diff != "" {
			t.Errorf("%s: closing (-want +got):\n%s", name, diff)
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
