package review

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
)

// TestGarbageIsBounded checks that the garbage of large pods, and of small autoscalers of large
// workloads, does not add up if Go's collector gets no CPU time. Here it is off.
func TestGarbageIsBounded(t *testing.T) {
	pod := `{"metadata":{"annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}},"spec":{"containers":[` +
		strings.Repeat(`{},`, 19_000) + `{}]}}`
	autoscaler := &admissionv1.AdmissionRequest{
		UID: "7", Kind: metav1.GroupVersionKind{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"}, Name: "x", Namespace: "default",
		Operation: admissionv1.Create, Object: k8sruntime.RawExtension{Raw: []byte(`{"spec":{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"large"}}}`)},
	}
	workloads := stored{"Deployment large": `{"spec":{"template":` + pod + `}}`}
	isBounded(t, Pods(managed(), nil, newTally(), discard()).(*reviews), encodeReview(t, creation(pod)))
	isBounded(t, Autoscalers(managed(), workloads, newTally(), discard()).(*reviews), encodeReview(t, autoscaler))
}

// isBounded answers a request many times, and checks the memory.
func isBounded(t *testing.T, r *reviews, request []byte) {
	t.Helper()
	const times, most = 20, 128 << 20 // bytes; one review takes 53 MiB
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	debug.FreeOSMemory()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := heap()
	for range times {
		if _, err := r.answer(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if got := heap() - before; got > most {
		t.Errorf("%s: %d reviews took %d MiB; want %d at most", r.name, times, got>>20, most>>20)
	} else {
		t.Logf("%s: %d MiB", r.name, got>>20)
	}
}
