package review

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// stored holds the workloads of namespace default by kind and name.
type stored map[string]string

func (s stored) Get(_ context.Context, namespace, kind, name string) ([]byte, error) {
	if text, found := s[kind+" "+name]; found && namespace == "default" {
		return []byte(text), nil
	}
	return nil, errors.New("not found")
}

// TestAutoscalers checks the warnings about autoscalers. Each of them is admitted.
func TestAutoscalers(t *testing.T) {
	const (
		byCPU   = `"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]`
		asks    = `{"metadata":{"annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]}}`
		whole   = `{"metadata":{"annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},"spec":{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi"}}}]}}`
		plain   = `{"spec":{"containers":[{"name":"a","resources":{"requests":{"cpu":"100m","memory":"1Gi"}}}]}}`
		remedy  = "; scale on a metric other than the utilization of CPU"
		without = ", whose pods run in the management pool and have no CPU request"
	)
	to := func(kind, name string) string {
		return `"scaleTargetRef":{"apiVersion":"apps/v1","kind":"` + kind + `","name":"` + name + `"}`
	}
	workloads := stored{}
	for key, template := range map[string]string{"Deployment agent": asks, "StatefulSet agent": asks, "Deployment whole": whole, "Deployment web": plain} {
		workloads[key] = `{"spec":{"template":` + template + `}}`
	}
	workloads["Deployment huge"] = `{"spec":{"template":{"spec":{"containers":[` + strings.Repeat(`{},`, maxElements) + `{}]}}}}`
	workloads["Deployment broken"] = `{"spec":{"template":7}}`
	unmarked, unknown, failing := managed(), fixed{}, managed()
	unmarked.annotations, failing.err = nil, errors.New("no namespace")
	hpa := metav1.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}
	keda := metav1.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
	vpa := metav1.GroupVersionKind{Group: "autoscaling.k8s.io", Version: "v1", Kind: "VerticalPodAutoscaler"}
	for name, c := range map[string]struct {
		kind    metav1.GroupVersionKind
		spec    string
		cluster fixed
		want    string
	}{
		"utilization":        {hpa, to("Deployment", "agent") + "," + byCPU, managed(), "HorizontalPodAutoscaler x scales on the utilization of CPU of Deployment agent" + without + remedy},
		"StatefulSet":        {hpa, to("StatefulSet", "agent") + "," + byCPU, managed(), "HorizontalPodAutoscaler x scales on the utilization of CPU of StatefulSet agent" + without + remedy},
		"absolute value":     {hpa, to("Deployment", "agent") + `,"metrics":[{"resource":{"name":"cpu","target":{"averageValue":"100m"}}}]`, managed(), ""},
		"metric of pods":     {hpa, to("Deployment", "agent") + `,"metrics":[{"type":"Pods","pods":{"metric":{"name":"x"}}}]`, managed(), ""},
		"Guaranteed pod":     {hpa, to("Deployment", "whole") + "," + byCPU, managed(), ""},
		"shared pod":         {hpa, to("Deployment", "web") + "," + byCPU, managed(), ""},
		"no such workload":   {hpa, to("Deployment", "later") + "," + byCPU, managed(), ""},
		"too large to read":  {hpa, to("Deployment", "huge") + "," + byCPU, managed(), ""},
		"not a workload":     {hpa, to("Deployment", "broken") + "," + byCPU, managed(), ""},
		"another group":      {hpa, `"scaleTargetRef":{"apiVersion":"example.com/v1","kind":"Deployment","name":"agent"},` + byCPU, managed(), ""},
		"namespace not open": {hpa, to("Deployment", "agent") + "," + byCPU, unmarked, ""},
		"namespace unread":   {hpa, to("Deployment", "agent") + "," + byCPU, failing, ""},
		"cluster not known":  {hpa, to("Deployment", "agent") + "," + byCPU, unknown, ""},
		"KEDA": {keda, `"scaleTargetRef":{"name":"agent"},"triggers":[{"type":"cpu","metricType":"Utilization"}]`, managed(),
			"ScaledObject x scales on the utilization of CPU of Deployment agent" + without + remedy},
		"KEDA, other trigger": {keda, `"scaleTargetRef":{"name":"agent"},"triggers":[{"type":"prometheus"}]`, managed(), ""},
		"VPA": {vpa, `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"agent"}`, managed(),
			"VerticalPodAutoscaler x sets the CPU request of Deployment agent" + without + "; write controlledResources: [memory] for all containers"},
		"VPA, memory only": {vpa, `"targetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"agent"},` +
			`"resourcePolicy":{"containerPolicies":[{"containerName":"*","controlledResources":["memory"]}]}`, managed(), ""},
	} {
		request := &admissionv1.AdmissionRequest{
			UID: "7", Kind: c.kind, Name: "x", Namespace: "default", Operation: admissionv1.Create,
			Object: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"x"},"spec":{` + c.spec + `}}`)},
		}
		got := answered(t, Autoscalers(c.cluster, workloads, newTally(), discard()), request)
		var want []string
		if c.want != "" {
			want = []string{c.want}
		}
		if d := cmp.Diff(want, got.Warnings); d != "" || !got.Allowed {
			t.Errorf("%s: allowed is %v; warnings (-want +got):\n%s", name, got.Allowed, d)
		}
	}
}

// slowTargets replies to no read before its end, and counts the reads that wait.
type slowTargets struct {
	end     chan struct{}
	mu      sync.Mutex
	waiting int
}

func (s *slowTargets) Get(context.Context, string, string, string) ([]byte, error) {
	s.mu.Lock()
	s.waiting++
	s.mu.Unlock()
	<-s.end
	return []byte(`{}`), nil
}

// TestTargetsAreBounded checks that many autoscalers do not read many workloads at once.
func TestTargetsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		targets := &slowTargets{end: make(chan struct{})}
		h := Autoscalers(managed(), targets, newTally(), discard())
		request := &admissionv1.AdmissionRequest{
			UID: "7", Kind: metav1.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, Namespace: "default",
			Object: runtime.RawExtension{Raw: []byte(`{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"agent"},` +
				`"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":80}}}]}}`)},
		}
		var all sync.WaitGroup
		for range 5 * maxTargets {
			all.Go(func() { answered(t, h, request) })
		}
		synctest.Wait()
		if targets.waiting != maxTargets {
			t.Errorf("%d reads at once; want %d", targets.waiting, maxTargets)
		}
		close(targets.end)
		all.Wait()
		if want := 5 * maxTargets; targets.waiting != want {
			t.Errorf("%d reads; want %d", targets.waiting, want)
		}
	})
}
