package installation_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/cpupoold/cpupoold/internal/cluster/installation"
)

// objects returns a DaemonSet with one pod on the node n, which are ready.
func objects() (*appsv1.DaemonSet, *corev1.Pod, *corev1.Node) {
	labels := map[string]string{"app.kubernetes.io/name": "cpupoold"}
	return &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cpupoold", Name: "cpupoold", Generation: 2},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}},
			Status:     appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 1, UpdatedNumberScheduled: 1, NumberReady: 1},
		}, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "cpupoold", Name: "cpupoold-1", Labels: labels},
			Spec:       corev1.PodSpec{NodeName: "n"},
		}, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "CPUPoolsReady", Status: corev1.ConditionTrue}}},
		}
}

// options returns a check of everything. The API server has the objects, and lets review
// change a created pod.
func options(review func(*corev1.Pod) error, objects ...runtime.Object) (installation.Options, *fake.Clientset) {
	client := fake.NewClientset(objects...)
	client.PrependReactor("create", "pods", func(a ktesting.Action) (bool, runtime.Object, error) {
		create := a.(ktesting.CreateActionImpl)
		pod := create.GetObject().(*corev1.Pod)
		if len(create.GetCreateOptions().DryRun) != 1 {
			return true, nil, errors.New("the pod would be stored")
		}
		return true, pod, review(pod)
	})
	names := []string{"cpupoold"}
	return installation.Options{Apps: client.AppsV1(), Core: client.CoreV1(), DaemonSets: names, Conditions: names, ReviewIn: "default"}, client
}

func reviews(pod *corev1.Pod) error {
	pod.Spec.Containers[0].Env = nil
	return nil
}

// TestWait checks that each fault is an error that names the object.
func TestWait(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(*appsv1.DaemonSet, *corev1.Node)
		review func(*corev1.Pod) error
		want   string // empty: no error
	}{
		"ready":            {},
		"no controller":    {fault: func(s *appsv1.DaemonSet, _ *corev1.Node) { s.Generation = 3 }, want: "no controller has seen its last change"},
		"no node":          {fault: func(s *appsv1.DaemonSet, _ *corev1.Node) { s.Status.DesiredNumberScheduled = 0 }, want: "no node matches"},
		"a pod is missing": {fault: func(s *appsv1.DaemonSet, _ *corev1.Node) { s.Status.NumberReady = 0 }, want: "of 1 pods, 1 are of its last version and 0 are ready"},
		"an old pod":       {fault: func(s *appsv1.DaemonSet, _ *corev1.Node) { s.Status.UpdatedNumberScheduled = 0 }, want: "0 are of its last version and 1 are ready"},
		"no DaemonSet":     {fault: func(s *appsv1.DaemonSet, _ *corev1.Node) { s.Name = "other" }, want: `daemonsets.apps "cpupoold" not found`},
		"no condition":     {fault: func(_ *appsv1.DaemonSet, n *corev1.Node) { n.Status.Conditions = nil }, want: "node n: it has no condition CPUPoolsReady"},
		"no Node":          {fault: func(_ *appsv1.DaemonSet, n *corev1.Node) { n.Name = "m" }, want: `read node n: nodes "n" not found`},
		"a problem": {fault: func(_ *appsv1.DaemonSet, n *corev1.Node) {
			n.Status.Conditions[0] = corev1.NodeCondition{Type: "CPUPoolsReady", Status: corev1.ConditionFalse, Reason: "Problems", Message: "a write failed"}
		}, want: "condition CPUPoolsReady is False: Problems: a write failed"},
		"an earlier configuration": {fault: func(_ *appsv1.DaemonSet, n *corev1.Node) {
			n.Status.Conditions[0].Reason, n.Status.Conditions[0].Message = "ConfigurationRefused", "onRefusl is not a known key"
		}, want: "condition CPUPoolsReady is True: ConfigurationRefused: onRefusl is not a known key"},
		"no webhook": {review: func(*corev1.Pod) error { return errors.New("failed calling webhook") }, want: "with dryRun: failed calling webhook"},
		"exempt":     {review: func(*corev1.Pod) error { return nil }, want: "cpupool-webhook did not change it"},
	} {
		t.Run(name, func(t *testing.T) {
			set, pod, node := objects()
			if c.fault != nil {
				c.fault(set, node)
			}
			if c.review == nil {
				c.review = reviews
			}
			o, _ := options(c.review, set, pod, node)
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // one check
			err := installation.Wait(ctx, o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
}

// TestWaitUntilReady checks that the check is repeated while there is time.
func TestWaitUntilReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, pod, node := objects()
		set.Status.NumberReady = 0
		o, client := options(reviews, set, pod, node)
		start := time.Now()
		go func() {
			time.Sleep(time.Minute)
			set.Status.NumberReady = 1
			if _, err := client.AppsV1().DaemonSets("cpupoold").UpdateStatus(t.Context(), set, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := installation.Wait(ctx, o); err != nil || time.Since(start) < time.Minute {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}
