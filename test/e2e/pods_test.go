//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Names that pods and nodes have in common.
const (
	target     = "target.workload.openshift.io/management"
	effect     = `{"effect":"PreferredDuringScheduling"}`
	cores      = "management.workload.openshift.io/cores"
	shared     = "openshift.io/shared-cpus"
	guaranteed = "openshift.io/guaranteed-cpus"
)

func management() map[string]string { return map[string]string{target: effect} }

// spec is a pod of one container, app, that waits. CPUs are its request, and its limit behind a bar, which makes it one of class Guaranteed.
func spec(cpus string) corev1.PodSpec {
	request, limit, limited := strings.Cut(cpus, "|")
	list := func(cpu string) corev1.ResourceList {
		l := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}
		if cpu != "" {
			l[corev1.ResourceCPU] = resource.MustParse(cpu)
		}
		return l
	}
	app := corev1.Container{
		Name: "app", Image: "localhost/cpupoold/work:1", ImagePullPolicy: corev1.PullNever,
		Resources: corev1.ResourceRequirements{Requests: list(request)},
	}
	if limited {
		app.Resources.Limits = list(limit)
	}
	none := int64(0)
	return corev1.PodSpec{Containers: []corev1.Container{app}, TerminationGracePeriodSeconds: &none}
}

// create makes a pod, and returns it as it is stored.
func (c *cluster) create(t *testing.T, namespace, name string, annotations map[string]string, cpus string) (*corev1.Pod, error) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec(cpus)}
	return c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// make is create of a pod that is not refused.
func (c *cluster) make(t *testing.T, namespace, name string, annotations map[string]string, cpus string) *corev1.Pod {
	t.Helper()
	pod, err := c.create(t, namespace, name, annotations, cpus)
	if err != nil {
		t.Fatalf("create pod %s/%s: %v", namespace, name, err)
	}
	return pod
}

// milli returns the request of a pod's container for a resource, in thousandths of the unit
// of cpu.
func milli(pod *corev1.Pod, name corev1.ResourceName) int64 {
	q := pod.Spec.Containers[0].Resources.Requests[name]
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// file is the content of a file of the cgroup of a pod's container.
func (c *cluster) file(t *testing.T, pod *corev1.Pod, name string) string {
	t.Helper()
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	if id == "" {
		t.Fatalf("pod %s/%s has no container: %+v", pod.Namespace, pod.Name, pod.Status)
	}
	i := slices.IndexFunc(c.machines, func(m *machine) bool { return m.name == pod.Spec.NodeName })
	return c.machines[i].run(t, "sh", "-euc", "cat /sys/fs/cgroup/kubepods.slice/*/cri-containerd-$0.scope/$1 2>/dev/null ||"+
		" cat /sys/fs/cgroup/kubepods.slice/*/*/cri-containerd-$0.scope/$1", id, name)
}

// cpus returns the effective CPUs of a pod's container.
func (c *cluster) cpus(t *testing.T, pod *corev1.Pod) cpuset.Set {
	t.Helper()
	text := c.file(t, pod, "cpuset.cpus.effective")
	set, err := cpuset.Parse(text)
	if err != nil {
		t.Fatalf("CPUs of pod %s/%s: %v", pod.Namespace, pod.Name, err)
	}
	return set
}

// dryRun returns a pod as the API server would create it.
func (c *cluster) dryRun(ctx context.Context, namespace string, annotations map[string]string, cpus string) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "dry-run", Annotations: annotations}, Spec: spec(cpus)}
	return c.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// waitsFor waits until an event reports that a pod waits for a resource.
func (c *cluster) waitsFor(t *testing.T, namespace, name, resource string) {
	t.Helper()
	eventually(t, "pod "+namespace+"/"+name+" waits for "+resource, func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse &&
				strings.Contains(condition.Message, "Insufficient "+resource) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
	})
}
