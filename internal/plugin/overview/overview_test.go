package overview_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/plugin/overview"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const cores, shared, guaranteed = "management.workload.openshift.io/cores", "openshift.io/shared-cpus", "openshift.io/guaranteed-cpus"

func amounts(of map[string]string) corev1.ResourceList {
	list := make(corev1.ResourceList)
	for name, amount := range of {
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func node(name string, allocatable map[string]string, conditions ...corev1.NodeCondition) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: amounts(allocatable), Conditions: conditions}}
}

func condition(typ, status, message string) corev1.NodeCondition {
	return corev1.NodeCondition{Type: corev1.NodeConditionType(typ), Status: corev1.ConditionStatus(status), Message: message, LastHeartbeatTime: metav1.NewTime(said)}
}

// said is the time of the daemons' reports, and now is a little later.
var (
	said = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now  = said.Add(10 * time.Minute)
)

func because(reason string, c corev1.NodeCondition) corev1.NodeCondition {
	c.Reason = reason
	return c
}

func earlier(c corev1.NodeCondition) corev1.NodeCondition {
	c.LastHeartbeatTime = metav1.NewTime(said.Add(-time.Hour))
	return c
}

func asks(of map[string]string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts(of)}}
}

func pod(name, on string, phase corev1.PodPhase, containers ...corev1.Container) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: on, Containers: containers}, Status: corev1.PodStatus{Phase: phase}}
}

func TestOf(t *testing.T) {
	names := workload.Names{}
	if names.SharedResource() != shared || names.GuaranteedResource() != guaranteed {
		t.Fatalf("resources of the pools = %s, %s; want those of the test", names.SharedResource(), names.GuaranteedResource())
	}
	nodes := []corev1.Node{
		node("b", map[string]string{"cpu": "8", cores: "2k", "infra.workload.openshift.io/cores": "1k", shared: "2000", guaranteed: "4k", "example.com/gpu": "1"},
			because("AsPlanned", condition("CPUPoolsReady", "True", "all is well")), condition("Ready", "True", "")),
		node("a", map[string]string{"cpu": "8"}, condition("Ready", "Unknown", "silent")),
		node("c", map[string]string{shared: "0"}, condition("CPUPoolsReady", "False", "2 cgroups are not in the desired state"), condition("NodeCPUPressure", "False", "")),
		node("d", map[string]string{shared: "0"}, condition("CPUPoolsReady", "True", ""), condition("NodeCPUPressure", "True", "below its floor")),
		node("e", map[string]string{shared: "1"}, condition("CPUPoolsReady", "True", ""), condition("Ready", "Unknown", "silent")),
		node("f", map[string]string{shared: "1"}),
		node("g", nil, condition("CPUPoolsReady", "Unknown", "starts")),
		node("h", nil, condition("CPUPoolsReady", "False", "3 are misplaced"), condition("NodeCPUPressure", "True", "below its floor")),
		node("j", nil, because("ConfigurationRefused", condition("CPUPoolsReady", "True", "an older configuration is in force"))),
		node("i", nil, earlier(condition("CPUPoolsReady", "True", "")), earlier(condition("NodeCPUPressure", "True", "below its floor"))),
	}
	always := corev1.ContainerRestartPolicyAlways
	sidecar := asks(map[string]string{guaranteed: "1k"})
	sidecar.RestartPolicy = &always
	withInit := pod("big", "b", corev1.PodRunning, asks(map[string]string{guaranteed: "2k"}))
	withInit.Spec.InitContainers = []corev1.Container{sidecar, asks(map[string]string{guaranteed: "1k"})}
	pods := []corev1.Pod{
		pod("small", "b", corev1.PodPending, asks(map[string]string{cores: "20"}), asks(map[string]string{cores: "30"})),
		withInit,
		pod("done", "b", corev1.PodSucceeded, asks(map[string]string{guaranteed: "4k"})),
		pod("failed", "b", corev1.PodFailed, asks(map[string]string{guaranteed: "4k"})),
		pod("nowhere", "", corev1.PodPending, asks(map[string]string{guaranteed: "4k"})),
		pod("over", "c", corev1.PodRunning, asks(map[string]string{shared: "500"})),
	}
	want := []overview.Node{
		{Name: "a", Health: overview.NoPools, Pools: []overview.Pool{}},
		{Name: "b", Health: overview.Ready, Code: "AsPlanned", AsOf: said, Pools: []overview.Pool{
			{Name: "management", Type: "infra", Resource: "infra.workload.openshift.io/cores", Capacity: 1000, Free: 1000},
			{Name: "management", Type: "management", Resource: cores, Capacity: 2000, Requested: 50, Free: 1950, Pods: []overview.Pod{{Namespace: "ns", Name: "small", Requested: 50}}},
			{Name: "shared", Resource: shared, Capacity: 2000, Free: 2000},
			{Name: "guaranteed", Resource: guaranteed, Capacity: 4000, Requested: 3000, Free: 1000, Pods: []overview.Pod{{Namespace: "ns", Name: "big", Requested: 3000}}},
		}},
		{Name: "c", Health: overview.NotReady, Message: "2 cgroups are not in the desired state", AsOf: said, Pools: []overview.Pool{
			{Name: "shared", Resource: shared, Requested: 500, Free: -500, Pods: []overview.Pod{{Namespace: "ns", Name: "over", Requested: 500}}},
		}},
		{Name: "d", Health: overview.Depleted, Message: "below its floor", AsOf: said, Pools: []overview.Pool{{Name: "shared", Resource: shared}}},
		{Name: "e", Health: overview.Stale, Message: "silent", AsOf: said, Pools: []overview.Pool{{Name: "shared", Resource: shared, Capacity: 1, Free: 1}}},
		{Name: "f", Health: overview.Untold, Pools: []overview.Pool{{Name: "shared", Resource: shared, Capacity: 1, Free: 1}}},
		{Name: "g", Health: overview.Unknown, Message: "starts", AsOf: said, Pools: []overview.Pool{}},
		{Name: "h", Health: overview.NotReady, Message: "3 are misplaced; depleted: below its floor", AsOf: said, Pools: []overview.Pool{}},
		{Name: "i", Health: overview.Stale, Message: "the daemon was depleted, and has said nothing since 2026-01-02T02:04:05Z: below its floor", AsOf: said.Add(-time.Hour), Pools: []overview.Pool{}},
		{Name: "j", Health: overview.Ready, Code: "ConfigurationRefused", Message: "an older configuration is in force", AsOf: said, Pools: []overview.Pool{}},
	}
	if diff := cmp.Diff(want, overview.Of(nodes, pods, names, now)); diff != "" {
		t.Errorf("overview (-want +got):\n%s", diff)
	}
}
