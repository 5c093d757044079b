//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// nicClass is the class and the driver of NICs.
const nicClass = "nic.example.com"

// devicesOf is a claim for CPUs. The options change it.
func devicesOf(cpus string, options ...func(*resourcev1.DeviceClaim)) resourcev1.DeviceClaim {
	exactly := &resourcev1.ExactDeviceRequest{DeviceClassName: dra.Class}
	if cpus != "" {
		exactly.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse(cpus)}}
	}
	d := resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "cpus", Exactly: exactly}}}
	for _, o := range options {
		o(&d)
	}
	return d
}

// onNode selects CPUs of a NUMA node.
func onNode(node int) func(*resourcev1.DeviceClaim) {
	return func(d *resourcev1.DeviceClaim) {
		d.Requests[0].Exactly.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf(`device.attributes["resource.kubernetes.io"].numaNode == %d`, node),
		}}}
	}
}

// withNIC adds a NIC of the same NUMA node.
func withNIC(d *resourcev1.DeviceClaim) {
	numa := resourcev1.FullyQualifiedName(dra.NUMANode)
	d.Requests = append(d.Requests, resourcev1.DeviceRequest{Name: "nic", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: nicClass}})
	d.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: &numa}}
}

// claim makes a claim.
func (c *claimCluster) claim(t *testing.T, name, cpus string, options ...func(*resourcev1.DeviceClaim)) *resourcev1.ResourceClaim {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: devicesOf(cpus, options...)}}
	made, err := c.ResourceV1().ResourceClaims("apps").Create(t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create claim %s: %v", name, err)
	}
	return made
}

// claimPod is a pod. Its container app uses these claims. Its limit would throttle it without the claims. A smaller limit would throttle the pause
// container, which starts before the daemon removes the quota of the pod.
func claimPod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "apps"}, Spec: spec("1m|500m")}
	pod.Spec.TerminationGracePeriodSeconds = nil // the API server removes the object after the kubelet has ended the pod
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		app := &pod.Spec.Containers[0].Resources
		app.Claims = append(app.Claims, corev1.ResourceClaim{Name: claim})
	}
	return pod
}

// add creates a pod of namespace apps.
func (c *claimCluster) add(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := c.CoreV1().Pods("apps").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create pod %s: %v", pod.Name, err)
	}
	return made
}

// launch creates a pod, and waits until it is Ready.
func (c *claimCluster) launch(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.add(t, pod)
	return c.running(t, "apps", pod.Name)
}

// end deletes pods, and waits until they and their containers are gone. It deletes claims with the same names.
func (c *claimCluster) end(t *testing.T, pods ...string) {
	t.Helper()
	for _, name := range pods {
		if err := c.CoreV1().Pods("apps").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.ResourceV1().ResourceClaims("apps").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	for _, name := range pods {
		eventually(t, "pod "+name+" and its claim are gone", func(ctx context.Context) error {
			_, err := c.CoreV1().Pods("apps").Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				_, err = c.ResourceV1().ResourceClaims("apps").Get(ctx, name, metav1.GetOptions{})
			}
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err == nil {
				err = errors.New("one is there")
			}
			return err
		})
	}
}

// inside runs a shell script on the node in the cgroup of a container.
func (c *claimCluster) inside(ctx context.Context, pod *corev1.Pod, container, script string) (string, error) {
	pod, err := c.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		_, id, _ := strings.Cut(s.ContainerID, "://")
		if s.Name != container || s.State.Running == nil || id == "" {
			continue
		}
		out, err := c.machines[0].Run(ctx, "sh", "-euc", `cd "$(find /sys/fs/cgroup/kubepods.slice -type d -name "cri-containerd-$0.scope")"; `+script, id)
		return strings.TrimSpace(string(out)), err
	}
	return "", fmt.Errorf("container %s of pod %s does not run: %+v", container, pod.Name, pod.Status)
}

// sees is inside of a container that runs.
func (c *claimCluster) sees(t *testing.T, pod *corev1.Pod, container, script string) string {
	t.Helper()
	out, err := c.inside(t.Context(), pod, container, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// on returns the CPUs of a container by the kernel: the effective CPUs of its cgroup, which each of its threads must have as its affinity.
func (c *claimCluster) on(ctx context.Context, pod *corev1.Pod, container string) (cpuset.Set, error) {
	out, err := c.inside(ctx, pod, container, `cat cpuset.cpus.effective; for t in $(cat cgroup.threads); do sed -n 's/^Cpus_allowed_list:\t//p' /proc/$t/status; done`)
	if err != nil {
		return cpuset.Set{}, err
	}
	lines := strings.Fields(out)
	if len(lines) < 2 {
		return cpuset.Set{}, fmt.Errorf("container %s of pod %s has no thread", container, pod.Name)
	}
	effective, err := cpuset.Parse(lines[0])
	if err != nil {
		return cpuset.Set{}, err
	}
	for _, line := range lines[1:] {
		if affinity, err := cpuset.Parse(line); err != nil || !affinity.Equal(effective) {
			return cpuset.Set{}, fmt.Errorf("a thread of container %s of pod %s may run on %s (%w); want %s", container, pod.Name, line, errors.Join(err), effective)
		}
	}
	return effective, nil
}

// cpusOf returns the CPUs of a container by the kernel.
func (c *claimCluster) cpusOf(t *testing.T, pod *corev1.Pod, container string) cpuset.Set {
	t.Helper()
	set, err := c.on(t.Context(), pod, container)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// runsOn checks the CPUs of a container.
func (c *claimCluster) runsOn(t *testing.T, pod *corev1.Pod, container, want string) {
	t.Helper()
	if got := c.cpusOf(t, pod, container); got.String() != want {
		t.Errorf("container %s of pod %s runs on %s; want %s", container, pod.Name, got, want)
	}
}

// moves waits until a container runs on these CPUs.
func (c *claimCluster) moves(t *testing.T, pod *corev1.Pod, container, want string) {
	t.Helper()
	eventually(t, "container "+container+" of pod "+pod.Name+" runs on "+want, func(ctx context.Context) error {
		got, err := c.on(ctx, pod, container)
		if err == nil && got.String() != want {
			err = fmt.Errorf("it runs on %s", got)
		}
		return err
	})
}

// pends waits until the scheduler reports about a pod that waits, with this text.
func (c *claimCluster) pends(t *testing.T, name, text string) {
	t.Helper()
	eventually(t, "pod "+name+" waits for "+text, func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods("apps").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && strings.Contains(condition.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
	})
}

// reports waits until an event of a pod contains a text.
func (c *claimCluster) reports(t *testing.T, name, text string) {
	t.Helper()
	eventually(t, "an event of pod "+name+": "+text, func(ctx context.Context) error {
		messages, err := c.messages(ctx, name)
		if err == nil && !strings.Contains(messages, text) {
			err = fmt.Errorf("its events: %s", messages)
		}
		return err
	})
}

// messages returns the events of a pod.
func (c *claimCluster) messages(ctx context.Context, name string) (string, error) {
	events, err := c.CoreV1().Events("apps").List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + name})
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for i := range events.Items {
		fmt.Fprintf(&b, "%s: %s\n", events.Items[i].Reason, events.Items[i].Message)
	}
	return b.String(), nil
}
