//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// changeTimeout is the time for a change that a driver may never make.
const changeTimeout = time.Minute

// measure returns the column of a driver.
func (c *cluster) measure(t *testing.T, d claimDriver) []measurement {
	t.Helper()
	all := []measurement{
		{"two claims for 2 CPUs each", c.split(t, d, 2)},
		{"two claims for 3 CPUs each", c.split(t, d, 3)},
		{"two containers with one claim", c.shareClaim(t, d)},
	}
	return append(all, c.disturb(t, d)...)
}

// split makes two pods with a claim each, and reports the CPUs and the cores that both use.
func (c *cluster) split(t *testing.T, d claimDriver, cpus int) string {
	t.Helper()
	var sets []cpuset.Set
	for _, name := range []string{"first", "second"} {
		c.launchClaim(t, d, name, cpus, "app")
		sets = append(sets, c.containerCPUs(t, c.running(t, comparisons, name), "app"))
	}
	c.empty(t, comparisons)
	if sets[0].Overlaps(sets[1]) {
		t.Fatalf("claims have CPUs in common: %v", sets)
	}
	result := fmt.Sprintf("%v, %v: ", sets[0], sets[1])
	for line := range strings.Lines(c.run(t, "sh", "-euc", "sort -u /sys/devices/system/cpu/cpu*/topology/thread_siblings_list")) {
		core, err := cpuset.Parse(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if sets[0].Overlaps(core) && sets[1].Overlaps(core) {
			return result + fmt.Sprintf("the core %v in common", core)
		}
	}
	return result + "no core in common"
}

// shareClaim makes a pod of two containers with one claim.
func (c *cluster) shareClaim(t *testing.T, d claimDriver) string {
	t.Helper()
	const name = "shares"
	c.launchClaim(t, d, name, 2, "app", "helper")
	defer c.empty(t, comparisons)
	var refused time.Time // first time with an error of a container
	var pod *corev1.Pod
	var reason, message string
	eventually(t, "both containers start, or one has an error for a minute", func(ctx context.Context) (err error) {
		if pod, err = c.CoreV1().Pods(comparisons).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		reason = ""
		for _, s := range pod.Status.ContainerStatuses {
			if w := s.State.Waiting; w != nil && w.Message != "" {
				reason, message = fmt.Sprintf("`%s` has `%s`", s.Name, w.Reason), w.Message
			}
		}
		switch {
		case reason != "" && refused.IsZero():
			refused = time.Now()
		case reason != "" && time.Since(refused) > changeTimeout, reason == "" && ready(pod):
			return nil
		}
		return fmt.Errorf("its containers are %+v", pod.Status.ContainerStatuses)
	})
	if reason != "" {
		t.Logf("%s: %s", reason, message)
		return reason + " for a minute"
	}
	return fmt.Sprintf("both run: on %v, %v", c.containerCPUs(t, pod, "app"), c.containerCPUs(t, pod, "helper"))
}

// disturb writes to the cgroups of a container with a claim and of one without, ends the claim, and restarts a container with another claim.
func (c *cluster) disturb(t *testing.T, d claimDriver) []measurement {
	t.Helper()
	c.make(t, comparisons, "plain", nil, "100m")
	plain := c.running(t, comparisons, "plain")
	without := c.containerCPUs(t, plain, "app")
	own := c.launchOwn(t, d, "own", plain)
	dir := c.cgroup(t, own, "app")
	return []measurement{
		{"`cpu.max` of container and pod with a limit", fmt.Sprintf("`%s`, `%s`", c.run(t, "cat", dir+"/cpu.max"), c.run(t, "cat", dir+"/../cpu.max"))},
		{"external write of `0-15` to a container with a claim", c.repair(t, d, dir)},
		{"external write of `0-15` to another container", c.repair(t, d, c.cgroup(t, plain, "app"))},
		{"another container gets the CPUs of an ended claim", c.giveBack(t, own, plain, without)},
		{"restart of a container with a claim", c.restartOwn(t, c.launchOwn(t, d, "restarts", plain), plain)},
		{"resident memory", c.memory(t, d)},
	}
}

// launchOwn starts a pod with a claim for two CPUs, and waits until a container without a claim has left them.
func (c *cluster) launchOwn(t *testing.T, d claimDriver, name string, plain *corev1.Pod) *corev1.Pod {
	t.Helper()
	c.launchClaim(t, d, name, 2, "app")
	pod := c.running(t, comparisons, name)
	eventually(t, "the container without a claim has left the CPUs", func(context.Context) error {
		if own, got := c.containerCPUs(t, pod, "app"), c.containerCPUs(t, plain, "app"); got.Overlaps(own) {
			return fmt.Errorf("it runs on %v; the claim has %v", got, own)
		}
		return nil
	})
	return pod
}

// restartOwn kills the process of a container with a claim. It reports the CPUs of the next one that a container without a claim has, too.
func (c *cluster) restartOwn(t *testing.T, own, plain *corev1.Pod) string {
	t.Helper()
	before := c.containerCPUs(t, own, "app")
	c.run(t, "sh", "-euc", "kill -9 $(cat $0/cgroup.procs)", c.cgroup(t, own, "app"))
	eventually(t, "the container starts again", func(ctx context.Context) (err error) {
		if own, err = c.CoreV1().Pods(comparisons).Get(ctx, own.Name, metav1.GetOptions{}); err == nil && (own.Status.ContainerStatuses[0].RestartCount == 0 || !ready(own)) {
			err = fmt.Errorf("it is %+v", own.Status.ContainerStatuses[0])
		}
		return err
	})
	result := "the same CPUs"
	if after := c.containerCPUs(t, own, "app"); !after.Equal(before) {
		result = fmt.Sprintf("%v instead of %v", after, before)
	}
	if both := c.containerCPUs(t, plain, "app").Intersection(c.containerCPUs(t, own, "app")); !both.IsEmpty() {
		return result + fmt.Sprintf(", %v also for another container", both)
	}
	return result + ", exclusive"
}

// repair widens a container by a write to its cgroup, and reports the event after which it has its CPUs again.
func (c *cluster) repair(t *testing.T, d claimDriver, dir string) string {
	t.Helper()
	const write = `
		read -r value <"$0/cpuset.cpus"; read -r effective <"$0/cpuset.cpus.effective"
		now=${EPOCHREALTIME/./}; began=$now; seen=
		echo 0-15 >"$0/cpuset.cpus"
		while [ $((now - began)) -lt "$1" ]; do
			now=${EPOCHREALTIME/./}
			read -r v <"$0/cpuset.cpus"; read -r e <"$0/cpuset.cpus.effective"
			[ "$e" = "$effective" ] || seen=$e
			if [ "$v" = "$value" ] && [ "$e" = "$effective" ]; then echo "$(((now - began) / 1000)) ms,$seen"; exit; fi
			read -rt 0.005 -u 9 || true
		done 9<> <(:)
		echo "never,$seen"`
	wanted := c.effective(t, dir)
	took, seen, _ := strings.Cut(c.run(t, "bash", "-uc", write, dir, fmt.Sprint(changeTimeout.Microseconds())), ",")
	t.Logf("container of %v: right after %s, in between %q", wanted, took, seen)
	if took != "never" {
		return "right after " + took
	}
	const result = "not in a minute"
	right := func() bool { // the next claim may have taken CPUs of the container
		return c.effective(t, dir).IsSubsetOf(wanted)
	}
	defer c.kubectl(t, "kubectl --namespace "+comparisons+" delete --ignore-not-found pod/next-plain pod/next-claim resourceclaim/next-claim")
	for _, event := range []struct {
		text  string
		cause func()
	}{
		{"the start of a container without a claim", func() {
			c.make(t, comparisons, "next-plain", nil, "100m")
			c.running(t, comparisons, "next-plain")
		}},
		{"the start of a container with a claim", func() {
			c.launchClaim(t, d, "next-claim", 1, "app")
			c.running(t, comparisons, "next-claim")
		}},
		{"a restart of the driver", func() { c.kubectl(t, d.restart) }},
	} {
		event.cause()
		for began := time.Now(); time.Since(began) < 10*time.Second; {
			if right() {
				return result + ", but after " + event.text
			}
		}
	}
	return result + ", nor after a restart of the driver"
}

// giveBack deletes a pod with a claim, and measures the time from the end of its last process until a container has its earlier CPUs.
func (c *cluster) giveBack(t *testing.T, own, plain *corev1.Pod, earlier cpuset.Set) string {
	t.Helper()
	const watch = `
		now=${EPOCHREALTIME/./}; began=$now; gone=; back=
		while [ $((now - ${gone:-$now})) -lt "$3" ] && [ $((now - began)) -lt $((10 * $3)) ]; do
			now=${EPOCHREALTIME/./}
			[ -n "$gone" ] || { read -r p <"$0/cgroup.procs"; } 2>/dev/null || gone=$now
			read -r e <"$1/cpuset.cpus.effective"
			[ "$e" != "$2" ] || back=$now
			if [ -n "$gone" ] && [ -n "$back" ]; then echo "$(((back - gone) / 1000))"; exit; fi
			read -rt 0.005 -u 9 || true
		done 9<> <(:)
		echo "never, gone=$gone, $e"`
	took := make(chan string, 1)
	args := []string{"bash", "-uc", watch, c.cgroup(t, own, "app"), c.cgroup(t, plain, "app"), earlier.String(), fmt.Sprint(changeTimeout.Microseconds())}
	ctx := t.Context()
	go func() {
		out, err := c.machines[0].Run(ctx, args...)
		if err != nil {
			out = []byte(err.Error())
		}
		took <- strings.TrimSpace(string(out))
	}()
	if err := c.CoreV1().Pods(comparisons).Delete(t.Context(), own.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	text := <-took
	t.Logf("CPUs of the ended claim are back: %s", text)
	if _, err := strconv.Atoi(text); err != nil {
		return "not in a minute"
	}
	return "after " + text + " ms"
}

// memory returns the resident memory of the processes of a driver.
func (c *cluster) memory(t *testing.T, d claimDriver) string {
	t.Helper()
	var sizes []string
	for name := range strings.FieldsSeq(d.programs) {
		var kib int
		if _, err := fmt.Sscan(c.run(t, "sh", "-euc", "sed -n 's/^VmRSS: *//p' /proc/$(pidof -s $0)/status", name), &kib); err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, fmt.Sprintf("`%s` %d MiB", name, kib>>10))
	}
	return strings.Join(sizes, ", ")
}

// launchClaim makes a ResourceClaim for CPUs of NUMA node 1, and a pod. All containers of the pod use the claim.
func (c *cluster) launchClaim(t *testing.T, d claimDriver, name string, cpus int, containers ...string) {
	t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
		Requests: []resourcev1.DeviceRequest{{Name: "cpus", Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: d.class,
			Selectors:       []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: d.node1}}},
			Capacity:        &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{d.capacity: *resource.NewQuantity(int64(cpus), resource.DecimalSI)}},
		}}},
	}}}
	if _, err := c.ResourceV1().ResourceClaims(comparisons).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec(d.cpu(cpus / len(containers)))}
	app, second := pod.Spec.Containers[0], int64(1)
	app.Resources.Claims = []corev1.ResourceClaim{{Name: "cpus"}}
	pod.Spec.Containers = nil
	for _, container := range containers {
		app.Name = container
		pod.Spec.Containers = append(pod.Spec.Containers, *app.DeepCopy())
	}
	pod.Spec.TerminationGracePeriodSeconds = &second // with 0, the API server would delete the pod before the kubelet ends the claim
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "cpus", ResourceClaimName: &name}}
	if _, err := c.CoreV1().Pods(comparisons).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// empty deletes all pods and claims of a namespace, and waits for their end.
func (c *cluster) empty(t *testing.T, namespace string) {
	t.Helper()
	c.kubectl(t, "kubectl --namespace "+namespace+" delete pods --all")
	c.kubectl(t, "kubectl --namespace "+namespace+" delete resourceclaims --all")
}

// cgroup returns the directory of a container of a pod.
func (c *cluster) cgroup(t *testing.T, pod *corev1.Pod, container string) string {
	t.Helper()
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container })
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[i].ContainerID, "://")
	dir := c.run(t, "find", "/sys/fs/cgroup/kubepods.slice", "-name", "cri-containerd-"+id+".scope")
	if id == "" || dir == "" {
		t.Fatalf("container %s of pod %s/%s has no cgroup: %+v", container, pod.Namespace, pod.Name, pod.Status.ContainerStatuses[i])
	}
	return dir
}

// containerCPUs returns the effective CPUs of a container of a pod.
func (c *cluster) containerCPUs(t *testing.T, pod *corev1.Pod, container string) cpuset.Set {
	t.Helper()
	return c.effective(t, c.cgroup(t, pod, container))
}

// effective returns the effective CPUs of a cgroup.
func (c *cluster) effective(t *testing.T, dir string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(c.run(t, "cat", dir+"/cpuset.cpus.effective"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}
