package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDaemonIn checks that a proxy in front of the daemon does not replace it.
func TestDaemonIn(t *testing.T) {
	for want, pod := range map[string]*corev1.Pod{
		"cpupoold": {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "kube-rbac-proxy"}, {Name: "cpupoold"}}}},
		"daemon": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubectl.kubernetes.io/default-container": "daemon"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy"}, {Name: "daemon"}}}},
		"only": {Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "only"}}}},
	} {
		if got := daemonIn(pod); got != want {
			t.Errorf("the daemon's container is %s; want %s", got, want)
		}
	}
}

// TestComplaintsSteerNothing checks that names from manifests cannot steer the terminal
// through errors.
func TestComplaintsSteerNothing(t *testing.T) {
	var out strings.Builder
	complain(&out, usageText("pod a\x1b]0;evil\a\nb"))
	if got, want := out.String(), "kubectl-cpupool: pod a?]0;evil?\nb\n"; got != want {
		t.Errorf("printed is %q; want %q", got, want)
	}
}

type usageText string

func (u usageText) Error() string { return string(u) }

// TestAnswersAreLimited checks that a pod that keeps sending fills no memory.
func TestAnswersAreLimited(t *testing.T) {
	l := limited{room: 4}
	if _, err := l.Write([]byte("abcd")); err != nil {
		t.Error(err)
	}
	if _, err := l.Write([]byte("e")); err == nil || l.String() != "abcd" {
		t.Errorf("beyond the limit there is %q, %v", l.String(), err)
	}
}
