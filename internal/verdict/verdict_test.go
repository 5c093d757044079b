package verdict_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/internal/verdict"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func container(name string, cpu, memory verdict.Amount) verdict.Container {
	return verdict.Container{Kind: "container", Name: name, CPU: cpu, Memory: memory}
}

// TestOf checks sentences that need several facts, or lack them.
func TestOf(t *testing.T) {
	whole, unknown := verdict.Amount{Request: 2000, Limit: 2000}, verdict.Amount{Request: verdict.Unknown, Limit: verdict.Unknown}
	shared := func(code pools.Code, reason string) inspect.Container {
		return inspect.Container{Namespace: "n", Pod: "p", Name: "a", Pool: inspect.Shared, Code: string(code), Reason: reason}
	}
	burstable := shared(pools.CodeBurstable, "Burstable pod")
	for _, test := range []struct {
		name string
		at   inspect.Container
		pod  verdict.Pod
		want string
	}{
		{"several containers", burstable, verdict.Pod{Containers: []verdict.Container{
			container("a", whole, verdict.Amount{}), container("b", verdict.Amount{Request: 100}, verdict.Amount{Request: 1}), container("c", whole, whole),
			container("d", whole, verdict.Amount{Request: 1, Limit: 2}), container("e", whole, verdict.Amount{}), container("f", whole, verdict.Amount{}),
		}}, "p runs in the shared pool, because its container a has no memory limit, its container b has no CPU limit and no memory limit and its container d has a memory request below its limit (and 2 containers more), so the pod is Burstable."},
		{"nothing known", burstable, verdict.Pod{Containers: []verdict.Container{container("a", unknown, unknown)}},
			"p runs in the shared pool, because a container has no limit, or requests less CPU or memory than its limit, so the pod is Burstable."},
		{"spec.resources", burstable, verdict.Pod{Containers: []verdict.Container{container("a", verdict.Amount{}, verdict.Amount{})}, Total: &verdict.Container{Name: "spec.resources", CPU: whole}},
			"p runs in the shared pool, because its spec.resources has no memory limit, so the pod is Burstable."},
		{"fraction of a pod", shared(pools.CodeFractional, "2500m CPU in a Guaranteed pod is not a whole number of CPUs"),
			verdict.Pod{Containers: []verdict.Container{container("a", verdict.Amount{}, verdict.Amount{})}, Total: &verdict.Container{Name: "spec.resources"}},
			"container a of p runs in the shared pool, because it has the CPU request of its pod, and the 2500m in spec.resources are not a whole number of CPUs."},
		{"other domain", burstable, verdict.Pod{Names: workload.Names{Domain: "cpu.example.org"}, Types: []string{"infra"}, Annotations: map[string]string{"target.cpu.exmaple.org/infra": ""}},
			"p runs in the shared pool, because its annotation target.cpu.exmaple.org/infra has no effect (did you mean target.cpu.example.org/infra?)."},
		{"late annotation", burstable, verdict.Pod{Annotations: map[string]string{"target.workload.openshift.io/management": workload.TargetValue}},
			"p runs in the shared pool, because its sandbox on the node has no annotation target.workload.openshift.io/management."},
		{"other annotation", burstable, verdict.Pod{Annotations: map[string]string{"prometheus.io/scrape": "true"}},
			"p runs in the shared pool, because a container has no limit, or requests less CPU or memory than its limit, so the pod is Burstable."},
		{"refused", inspect.Container{Name: "a", Pool: inspect.Shared, Refused: true, Code: string(pools.CodeRefused),
			Reason: "requests 5 whole CPUs, but NUMA nodes 1 of the devices and memory have too few left (topology-policy: restricted); wait until others end; runs in the shared pool (6 of 11 CPUs of the guaranteed pool are free)"},
			verdict.Pod{}, "container a of p runs in the shared pool, because it requests 5 whole CPUs, but NUMA nodes 1 of the devices and memory have too few left (topology-policy: restricted)."},
		{"a claim", inspect.Container{Name: "a", Pool: inspect.Guaranteed, Exclusive: true, Claims: []string{"n/one", "n/two"}, Code: string(pools.CodeClaim)}, verdict.Pod{},
			"container a of p has exclusive CPUs, because it uses ResourceClaims one and two."},
		{"a claim before a type", inspect.Container{Name: "a", Pool: inspect.Guaranteed, Claims: []string{"n/one"}, Code: string(pools.CodeClaim)},
			verdict.Pod{Annotations: map[string]string{"target.workload.openshift.io/management": workload.TargetValue}},
			"container a of p runs on exclusive CPUs that containers of its pod share, because it uses ResourceClaim one."},
		{"a refused claim", inspect.Container{Name: "a", Pool: inspect.Shared, Refused: true, Claims: []string{"n/one"}, Code: string(pools.CodeRefused),
			Reason: "claim one gets no CPUs, because only 0 of 4 CPUs of device numa0 are free; runs in the shared pool"}, verdict.Pod{},
			"container a of p runs in the shared pool, because claim one gets no CPUs, because only 0 of 4 CPUs of device numa0 are free."},
		{"other type", inspect.Container{Name: "a", Pool: inspect.Management, Type: "infra", Code: string(pools.CodeManagement)}, verdict.Pod{},
			"p runs in the management pool of workload type infra, because it requests workload type infra."},
	} {
		test.pod.Name = "p"
		if got := verdict.Of(&test.at, nil, &test.pod); got.Sentence != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, got.Sentence, test.want)
		}
	}
}

// TestFix checks fixes that name all containers, or that are not about a key of the pod.
func TestFix(t *testing.T) {
	at := inspect.Container{Namespace: "n", Pod: "p", Name: "a", Pool: inspect.Shared, Code: string(pools.CodeBurstable), Reason: "Burstable pod"}
	whole := verdict.Amount{Request: 2000, Limit: 2000}
	five := verdict.Pod{Name: "p"}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		five.Containers = append(five.Containers, container(name, whole, verdict.Amount{}))
	}
	two := verdict.Pod{Name: "p", Annotations: map[string]string{"target.workload.openshift.io/management": workload.TargetValue, "target.workload.openshift.io/infra": workload.TargetValue}}
	_, _, err := two.Names.Target(two.Annotations)
	if err == nil {
		t.Fatal("no error for two workload types")
	}
	invalid := []inspect.Problem{{Code: string(pools.CodeTargetInvalid), Text: err.Error() + "; the pod is placed like any other"}}
	for _, test := range []struct {
		pod      verdict.Pod
		problems []inspect.Problem
		want     string
	}{
		{five, nil, "for exclusive CPUs set resources.limits.memory of container a, resources.limits.memory of container b and resources.limits.memory of container c " +
			"and the limits of CPU and memory of 2 containers more, with requests equal to limits in all containers"},
		{two, invalid, "keep the annotation of one workload type only"},
		{verdict.Pod{Name: "p", Total: &verdict.Container{Name: "spec.resources", CPU: whole}}, nil,
			"for exclusive CPUs set limits.memory of spec.resources, with requests equal to limits in spec.resources"},
	} {
		if got := verdict.Of(&at, test.problems, &test.pod); got.Fix != test.want {
			t.Errorf("%s\nfix: %s\nwant %s", got.Sentence, got.Fix, test.want)
		}
	}
	at.Code, at.Reason = string(pools.CodeRefused), "requests 4 whole CPUs, but the shared pool has 2 CPUs and keeps 2 of them (guaranteed.floor); runs in the shared pool until enough CPUs are free"
	const want = "request fewer CPUs in container a, lower guaranteed.floor in the configuration of the node, or wait until other containers end"
	if got := verdict.Of(&at, nil, &verdict.Pod{Name: "p"}); got.Fix != want {
		t.Errorf("fix: %s\nwant %s", got.Fix, want)
	}
}

// TestWarnings checks that a warning of the webhook gives the sentence that the planner's problem
// gives, as far as the planner has the reason.
func TestWarnings(t *testing.T) {
	const problemOf = "because namespace n does not allow workload type management"
	cpu := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}
	both := corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Gi")}}
	allows := map[string]string{"workload.openshift.io/allowed": "management"}
	for _, test := range []struct {
		name      string
		types     map[string]bool
		namespace map[string]string
		resources corev1.ResourceRequirements
		total     *corev1.ResourceRequirements
		code      pools.Code
		want      string
	}{
		{"namespace", map[string]bool{"management": true}, nil, cpu, nil, pools.CodeNamespaceNotListed, problemOf},
		{"guaranteed", map[string]bool{"management": true}, allows, both, nil, pools.CodeGuaranteedPod, "because workload type management is not for pods of QoS class Guaranteed"},
		{"type", nil, allows, cpu, nil, pools.CodeTypeUnknown, "because its annotation target.workload.openshift.io/management names a workload type that has no pool"},
		{"class", map[string]bool{"management": true}, allows, cpu, nil, "WebhookIgnored", "because the webhook ignores workload type management: without its CPU requests"},
		{"spec.resources", map[string]bool{"management": true}, allows, cpu, &cpu, "WebhookIgnored", "because the webhook ignores workload type management: the pod asks for CPU in spec.resources"},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: test.resources}}, Resources: test.total}}
		pod.Name, pod.Namespace = "p", "n"
		pod.Annotations = map[string]string{"target.workload.openshift.io/management": workload.TargetValue}
		changed, _, err := admission.Settings{Types: test.types}.Mutate(pod, admission.Origin{Namespace: test.namespace})
		if err != nil {
			t.Fatal(err)
		}
		answers, err := simulate.Presumed{Types: []string{"management"}}.Answers(changed)
		if err != nil || len(answers) != 1 || answers[0].Verdict.Code != test.code || !strings.Contains(answers[0].Sentence, test.want) {
			t.Errorf("%s: %+v, %v; want %s: %s", test.name, answers, err, test.code, test.want)
		}
	}
}
