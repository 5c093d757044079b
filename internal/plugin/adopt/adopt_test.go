package adopt_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/plugin/adopt"
)

func settings() admission.Settings {
	return admission.Settings{Types: map[string]bool{"management": true}, SharedCPUs: true, GuaranteedCPUs: true}
}

func TestExcludedPods(t *testing.T) {
	const pod = `{"kind":"PodList","items":[{"metadata":{"name":"p","namespace":"n"%s},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"%s"%s}}}]},"status":{"phase":"%s"}}]}`
	for name, c := range map[string]struct {
		meta, cpu, more, phase string
		steps                  int
	}{
		"runs":       {cpu: "1", phase: "Running", steps: 1},
		"waits":      {cpu: "1", phase: "Pending", steps: 1},
		"has ended":  {cpu: "1", phase: "Succeeded"},
		"has failed": {cpu: "1", phase: "Failed"},
		"ends":       {cpu: "1", phase: "Running", meta: `,"deletionTimestamp":"2026-01-01T00:00:00Z"`},
		"uses none":  {cpu: "0", phase: "Running"},
		"is counted": {cpu: "1", more: `,"openshift.io/shared-cpus":"1000"},"limits":{"openshift.io/shared-cpus":"1000"`, phase: "Running"},
	} {
		var cluster adopt.Cluster
		text := strings.Replace(strings.Replace(strings.Replace(strings.Replace(pod, "%s", c.meta, 1), "%s", c.cpu, 1), "%s", c.more, 1), "%s", c.phase, 1)
		if err := cluster.Read("-", []byte(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if plan := adopt.Make(settings(), &cluster); len(plan.Steps) != c.steps {
			t.Errorf("%s: %+v, want %d steps", name, plan.Steps, c.steps)
		}
	}
}

// TestClaims checks that a container on CPUs of a claim needs no restart, and that a pod with an unknown claim has a
// warning.
func TestClaims(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"ran"},"spec":{"resourceClaims":[{"name":"e","resourceClaimTemplateName":"du"}],` +
		`"containers":[{"name":"c","resources":{"requests":{"cpu":"1m"},"claims":[{"name":"e"}]}}]},"status":{"phase":"Running"}}`
	const template = `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaimTemplate","metadata":{"name":"du","namespace":"ran"},` +
		`"spec":{"spec":{"devices":{"requests":[{"name":"r","exactly":{"deviceClassName":"exclusive-cpus.cpupoold.io"}}]}}}}`
	for text, want := range map[string]int{pod + "," + template: 0, pod: 1} {
		var cluster adopt.Cluster
		if err := cluster.Read("-", []byte(`{"kind":"List","items":[`+text+`]}`)); err != nil {
			t.Fatal(err)
		}
		plan := adopt.Make(settings(), &cluster)
		if len(plan.Steps) != want || want > 0 && !strings.Contains(strings.Join(plan.Steps[0].Warnings, "\n"), `resource claim "e" is not known`) {
			t.Errorf("steps are %+v; want %d", plan.Steps, want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for text, want := range map[string]string{
		"kind: List":                               "no JSON list",
		`{"kind":"Pod"}`:                           `kind "Pod" is no list of pods; make it with kubectl get`,
		`{"kind":"List","items":[null]}`:           "items[0]: null",
		`{"kind":"List","items":[{}]}`:             "items[0]: no kind",
		`{"kind":"List","items":[{"kind":"A"},1]}`: "items[1]: ",
		`{"kind":"List","items":[{"kind":"Pod","metadata":{"name":"p","namespace":"n"},"spec":{"containers":1}}]}`: "items[0]: n/p: ",
	} {
		if err := new(adopt.Cluster).Read("-", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}

// FuzzPlan checks that a plan counts each pod once, with its CPU on its node, and
// that the order of the list is nothing to it.
func FuzzPlan(f *testing.F) {
	f.Add(`{"kind":"List","items":[{"kind":"Pod","metadata":{"name":"p","annotations":{"target.workload.openshift.io/management":""}},"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"limits":{"cpu":"1"}}}]}}]}`)
	f.Add(`{"kind":"PodList","items":[{"spec":{"nodeName":"n","initContainers":[{"restartPolicy":"Always","resources":{"requests":{"cpu":"9223372036854775807"}}}],"containers":[{"resources":{"requests":{"cpu":"9e18"}}}]}},{"spec":{"nodeName":"m","containers":[{"resources":{"requests":{"cpu":"-1"}}}]}}]}`)
	f.Add(`{"kind":"List","items":[{"kind":"Namespace","metadata":{"name":"n","annotations":{"workload.openshift.io/allowed":"infra"}}},{"kind":"ReplicaSet","metadata":{"name":"r","namespace":"n","ownerReferences":[{"controller":true,"kind":"Deployment","name":"d"}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		var cluster adopt.Cluster
		if cluster.Read("-", []byte(text)) != nil {
			return
		}
		plan := adopt.Make(settings(), &cluster)
		pods := 0
		for i, step := range plan.Steps {
			if step.Pods < 1 || step.MilliCPU < 0 || step.How == "" || step.Stage.Why() == "" || i > 0 && plan.Steps[i-1].Stage > step.Stage {
				t.Errorf("step = %+v; want pods, CPU, how, why and order", step)
			}
			pods += step.Pods
		}
		if pods > len(cluster.Pods) {
			t.Errorf("pods in steps = %d; want at most %d", pods, len(cluster.Pods))
		}
		for _, node := range plan.Nodes {
			if node.Pods < 1 || node.MilliCPU < 0 {
				t.Errorf("node = %+v; want pods and CPU", node)
			}
			pods -= node.Pods
		}
		if pods < 0 {
			t.Errorf("pods on nodes exceed pods in steps by %d", -pods)
		}
		if _, err := json.Marshal(plan); err != nil {
			t.Error(err)
		}
		slices.Reverse(cluster.Pods)
		if diff := cmp.Diff(plan, adopt.Make(settings(), &cluster)); diff != "" {
			t.Errorf("plan depends on the order of pods:\n%s", diff)
		}
	})
}
