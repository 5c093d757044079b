package eviction_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/cluster/eviction"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// pod returns a pod of node n1 without any request, created at a minute.
func pod(name string, minute int, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(int64(minute)*60, 0))},
		Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func requests(name corev1.ResourceName, amount string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{name: resource.MustParse(amount)}}
}

func prioritized(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

func tolerating(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{t} }
}

func TestVictims(t *testing.T) {
	annotated := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{key: value} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		victim bool
	}{
		"no request":                      {func(*corev1.Pod) {}, true},
		"memory alone":                    {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requests("memory", "1Gi") }, true},
		"a CPU request of 0":              {func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requests("cpu", "0") }, true},
		"pending on the node":             {func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, true},
		"a CPU request":                   {func(p *corev1.Pod) { p.Spec.Containers[1].Resources = requests("cpu", "1m") }, false},
		"that of an init container":       {func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Resources: requests("cpu", "1")}} }, false},
		"that of the pod":                 {func(p *corev1.Pod) { r := requests("cpu", "1"); p.Spec.Resources = &r }, false},
		"of another node":                 {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, false},
		"it ends":                         {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, false},
		"it has failed":                   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"it is done":                      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false},
		"the copy of a static pod":        {annotated(corev1.MirrorPodAnnotationKey, "x"), false},
		"of a workload type":              {annotated("target.workload.openshift.io/management", `{"effect":"PreferredDuringScheduling"}`), false},
		"of one, in words that are wrong": {annotated("target.workload.openshift.io/management", "{}"), false},
		"counted by one": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = requests("management.workload.openshift.io/cores", "100")
		}, false},
		"another's annotation":     {annotated("target.example.com/management", "{}"), true},
		"high priority":            {prioritized(1_999_999_999), true},
		"critical priority":        {prioritized(2_000_000_000), false},
		"critical class":           {func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, false},
		"tolerates all":            {tolerating(corev1.Toleration{Operator: "Exists"}), false},
		"tolerates the taint":      {tolerating(corev1.Toleration{Key: workload.DepletedTaint, Operator: "Exists", Effect: "NoSchedule"}), false},
		"tolerates its value":      {tolerating(corev1.Toleration{Key: workload.DepletedTaint, Value: "evict"}), false},
		"tolerates another value":  {tolerating(corev1.Toleration{Key: workload.DepletedTaint, Value: "x"}), true},
		"tolerates another effect": {tolerating(corev1.Toleration{Operator: "Exists", Effect: "NoExecute"}), true},
		"tolerates another taint":  {tolerating(corev1.Toleration{Key: "other", Operator: "Exists"}), true},
	} {
		got := eviction.Victims([]corev1.Pod{pod("p", 0, c.change)}, "n1", workload.Names{})
		if (len(got) == 1) != c.victim {
			t.Errorf("%s: victim %t, want %t", name, len(got) == 1, c.victim)
		}
	}
}

func TestVictimsInOrder(t *testing.T) {
	pods := []corev1.Pod{
		pod("old", 1), pod("younger", 2), pod("youngest", 3), pod("same-b", 0), pod("same-a", 0),
		pod("low", 1, prioritized(-10)), pod("high-young", 9, prioritized(10)), pod("high", 1, prioritized(10)), pod("zero", 4, prioritized(0)),
	}
	want := []string{"low", "zero", "youngest", "younger", "old", "same-a", "same-b", "high-young", "high"}
	for range 2 {
		var got []string
		for _, p := range eviction.Victims(pods, "n1", workload.Names{}) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
		slices.Reverse(pods)
	}
}
