//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cpupoold/cpupoold/internal/dra"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// TestClaims gives CPUs to pods by ResourceClaims, from the installation of cpupool-dra to the removal. No part of the cluster has the gate
// DRANodeAllocatableResources, so the kubelet reserves the CPUs of claims. The kernel's sets are the proof.
func TestClaims(t *testing.T) {
	c := startClaims(t, "", reservedWithout)
	if !t.Run("install", c.installsDriver) {
		return
	}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"nic", c.nic}, {"full", c.full}, {"containers of a pod", c.shares}, {"two claims", c.twoClaims}, {"neighbours", c.neighbours},
		{"forged", c.forged}, {"offline CPU", c.offline}, {"API server away", c.withoutAPI}, {"deleted by force", c.forced}, {"rolling upgrade", c.upgrades},
		{"uninstall", c.uninstalls},
	} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// installsDriver checks that the installation publishes the CPUs of the list, and that only the kubelet's reservation takes them from cpu.
func (c *claimCluster) installsDriver(t *testing.T) {
	c.installDriver(t)
	c.mapped(t, false)
	c.allocatable(t, 3)
}

// mapped waits until the devices of the node count as cpu, or do not.
func (c *claimCluster) mapped(t *testing.T, want bool) {
	t.Helper()
	c.publishes(t, dra.Driver, func(devices []resourcev1.Device) error {
		for _, d := range devices {
			if (len(d.NodeAllocatableResources) > 0) != want {
				return fmt.Errorf("device %s has the resources %v; want some: %t", d.Name, d.NodeAllocatableResources, want)
			}
		}
		return nil
	})
}

// allocatable waits until the node has this many CPUs for the scheduler.
func (c *claimCluster) allocatable(t *testing.T, want int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("the node has %d cpu", want), func(ctx context.Context) error {
		node, err := c.node(ctx, nodeName)
		if err == nil && node.Status.Allocatable.Cpu().Value() != want {
			err = fmt.Errorf("it has %v", node.Status.Allocatable.Cpu())
		}
		return err
	})
}

// nic checks that a pod gets CPUs on the NUMA node of its NIC, from a template. Without the NIC, it would get CPUs of the first node. Its
// limit does not throttle it, and it can read its CPUs.
func (c *claimCluster) nic(t *testing.T) {
	template := &resourcev1.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "near"},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: devicesOf("2", withNIC)}}}
	if _, err := c.ResourceV1().ResourceClaimTemplates("apps").Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := claimPod("near", "rt")
	pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "rt", ResourceClaimTemplateName: new("near")}
	pod = c.launch(t, pod)
	c.runsOn(t, pod, "app", "6-7")
	claim, err := c.ResourceV1().ResourceClaims("apps").Get(t.Context(), *pod.Status.ResourceClaimStatuses[0].ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(c.sees(t, pod, "app", `tr '\0' '\n' </proc/$(head -n 1 cgroup.procs)/environ`), "\n")
	for _, want := range []string{"NIC=eth0", "CPUPOOL_CPUS=6-7", "DRA_CPUSET_" + string(claim.UID) + "=6-7"} {
		if !strings.Contains("\n"+strings.Join(lines, "\n")+"\n", "\n"+want+"\n") {
			t.Errorf("the environment of the container lacks %s:\n%s", want, strings.Join(lines, "\n"))
		}
	}
	for _, file := range []string{"cpu.max", "../cpu.max"} {
		if got := c.sees(t, pod, "app", "cat "+file); got != "max 100000" {
			t.Errorf("%s of the container = %q; want no limit", file, got)
		}
	}
	metadata := c.sees(t, pod, "app", `find /proc/$(head -n 1 cgroup.procs)/root/var/run/kubernetes.io/dra-device-attributes -name 'cpu.cpupoold.io*' -exec cat {} +`)
	if !strings.Contains(metadata, string(dra.NUMANode)) || !strings.Contains(metadata, "6-7") {
		t.Errorf("metadata of the claim = %q; want the NUMA node and the CPUs", metadata)
	}
	c.accepted(t, claim.Name, "6-7")
}

// accepted waits until the status of a claim has these CPUs, and that they are ready.
func (c *claimCluster) accepted(t *testing.T, name, cpus string) {
	t.Helper()
	eventually(t, "the status of claim "+name+" has CPUs "+cpus, func(ctx context.Context) error {
		claim, err := c.ResourceV1().ResourceClaims("apps").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, d := range claim.Status.Devices {
			if d.Driver != dra.Driver || d.Data == nil || !strings.Contains(string(d.Data.Raw), strconv.Quote(cpus)) {
				continue
			}
			for _, condition := range d.Conditions {
				if condition.Type == "Ready" && condition.Status == metav1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("its devices are %+v", claim.Status.Devices)
	})
}

// full checks that a pod waits while all CPUs of the node that it needs have claims, and gets them when they are free.
func (c *claimCluster) full(t *testing.T) {
	c.claim(t, "late", "1", onNode(1))
	pod := c.add(t, claimPod("late", "late"))
	c.pends(t, "late", "cannot allocate all claims")
	c.free(t, "2-3")
	c.end(t, "near")
	c.running(t, "apps", "late")
	if got := c.cpusOf(t, pod, "app"); got.Len() != 1 || !got.IsSubsetOf(cpuset.Range(6, 7)) {
		t.Errorf("pod late runs on %s; want one of 6-7", got)
	}
	c.end(t, "late")
	c.free(t, "2-3,6-7")
}

// shares checks that an init container, a sidecar and an app run on the CPUs of one claim, and another container of the pod does not.
func (c *claimCluster) shares(t *testing.T) {
	c.claim(t, "team", "2", onNode(0))
	pod := heldPod("team")
	pod.Spec.InitContainers[0].Resources.Claims = pod.Spec.Containers[0].Resources.Claims // hold runs on the CPUs, too
	sidecar := *pod.Spec.Containers[0].DeepCopy()
	sidecar.Name, sidecar.RestartPolicy = "sidecar", ptr.To(corev1.ContainerRestartPolicyAlways)
	other := *pod.Spec.Containers[0].DeepCopy()
	other.Name, other.Resources.Claims = "other", nil
	pod.Spec.InitContainers = append([]corev1.Container{sidecar}, pod.Spec.InitContainers...)
	pod.Spec.Containers = append(pod.Spec.Containers, other)
	c.add(t, pod)
	c.held(t, pod)
	for _, name := range []string{"sidecar", "hold"} {
		c.runsOn(t, pod, name, "2-3")
	}
	c.release(t, pod)
	for _, name := range []string{"sidecar", "app"} {
		c.runsOn(t, pod, name, "2-3")
	}
	c.moves(t, pod, "other", sharedByClaims.String())
	c.end(t, "team")
	c.free(t, "2-3,6-7")
}

// heldPod is a pod with a claim of the same name. Its init container hold waits.
func heldPod(name string) *corev1.Pod {
	pod := claimPod(name, name)
	hold := *pod.Spec.Containers[0].DeepCopy()
	hold.Name, hold.Resources.Claims = "hold", nil
	pod.Spec.InitContainers = []corev1.Container{hold}
	return pod
}

// held waits until the init container of a pod runs. The claims of the pod are prepared, and the app has no container.
func (c *claimCluster) held(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eventually(t, "pod "+pod.Name+" is held", func(ctx context.Context) error {
		_, err := c.on(ctx, pod, "hold")
		return err
	})
}

// release ends the init container of a pod, and waits until the pod is Ready.
func (c *claimCluster) release(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	c.sees(t, pod, "hold", "kill -TERM $(cat cgroup.procs)")
	c.running(t, "apps", pod.Name)
}

// twoClaims checks that a container with two claims runs on the CPUs of both.
func (c *claimCluster) twoClaims(t *testing.T) {
	for i, name := range []string{"first", "second"} {
		c.claim(t, name, "1", onNode(i))
	}
	pod := c.launch(t, claimPod("first", "first", "second"))
	got := c.cpusOf(t, pod, "app")
	if got.Len() != 2 || got.Intersection(cpuset.Range(2, 3)).Len() != 1 || got.Intersection(cpuset.Range(6, 7)).Len() != 1 {
		t.Errorf("the pod runs on %s; want one of 2-3 and one of 6-7", got)
	}
	c.end(t, "first")
	if err := c.ResourceV1().ResourceClaims("apps").Delete(t.Context(), "second", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.free(t, "2-3,6-7")
}

// neighbours checks that the CPUs of a claim, of a Guaranteed pod and of a systemd unit are disjoint. The claim's pod stays for the next steps.
func (c *claimCluster) neighbours(t *testing.T) {
	c.claim(t, "owner", "2", onNode(0))
	owner := c.launch(t, claimPod("owner", "owner"))
	c.run(t, "systemd-run", "--unit=du.service", "sleep", "infinity")
	whole := claimPod("whole")
	whole.Spec = spec("1|1")
	whole.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = whole.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory]
	whole = c.launch(t, whole)
	eventually(t, "the unit has a CPU of its own", func(ctx context.Context) error {
		out, err := c.machines[0].Run(ctx, "sh", "-euc", "cat /sys/fs/cgroup/system.slice/du.service/cpuset.cpus.effective; taskset -cp $(systemctl show -P MainPID du.service) | sed 's/.*: //'")
		if err != nil {
			return err
		}
		lines := strings.Fields(string(out))
		unit, err := cpuset.Parse(lines[0])
		if err != nil {
			return err
		}
		guaranteed, err := c.on(ctx, whole, "app")
		if err != nil {
			return err
		}
		if all := unit.Union(guaranteed); len(lines) != 2 || lines[1] != lines[0] || unit.Len() != 1 || guaranteed.Len() != 1 || all.String() != "4-5" {
			return fmt.Errorf("the unit runs on %v, and the Guaranteed pod on %s; want one of 4-5 each", lines, guaranteed)
		}
		return nil
	})
	c.runsOn(t, owner, "app", "2-3")
	c.end(t, "whole")
}

// forged checks that a pod with the variables of another pod's claim stays in the shared pool.
func (c *claimCluster) forged(t *testing.T) {
	claim, err := c.ResourceV1().ResourceClaims("apps").Get(t.Context(), "owner", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := claimPod("thief")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "DRA_CPUSET_" + string(claim.UID), Value: "2-3"}, {Name: "CPUPOOL_CPUS", Value: "2-3"}}
	pod = c.launch(t, pod)
	c.moves(t, pod, "app", sharedByClaims.String())
	c.end(t, "thief")
}

// offline checks that a device has less CPUs while one is offline, and that a container with a claim runs on the rest until the CPU is back.
func (c *claimCluster) offline(t *testing.T) {
	owner := claimPod("owner")
	c.run(t, "sh", "-euc", "echo 0 >/sys/devices/system/cpu/cpu3/online")
	c.moves(t, owner, "app", "2")
	c.capacities(t, 1, 2)
	c.healthy(t, "owner", corev1.ResourceHealthStatusUnhealthy)
	c.run(t, "sh", "-euc", "echo 1 >/sys/devices/system/cpu/cpu3/online")
	c.moves(t, owner, "app", "2-3")
	c.capacities(t, 2, 2)
	c.healthy(t, "owner", corev1.ResourceHealthStatusHealthy)
}

// healthy waits until the kubelet reports this health of the CPUs of a pod.
func (c *claimCluster) healthy(t *testing.T, name string, want corev1.ResourceHealthStatus) {
	t.Helper()
	eventually(t, "the CPUs of pod "+name+" are "+string(want), func(ctx context.Context) error {
		pod, err := c.CoreV1().Pods("apps").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		status := pod.Status.ContainerStatuses[0].AllocatedResourcesStatus
		for _, s := range status {
			for _, r := range s.Resources {
				if r.Health == want {
					return nil
				}
			}
		}
		return fmt.Errorf("the status is %+v", status)
	})
}

// withoutAPI checks that pods keep their CPUs while the API server is away, over a restart of the daemon, and that pods start afterwards.
func (c *claimCluster) withoutAPI(t *testing.T) {
	c.plane.stop("kube-apiserver")
	t.Run("restart of the daemon", c.restartsAlone)
	c.plane.startAPIServer(t)
	c.runsOn(t, claimPod("owner"), "app", "2-3")
	c.claim(t, "back", "1", onNode(1))
	c.launch(t, claimPod("back", "back"))
	c.end(t, "back")
}

// restartsAlone restarts the daemon without an API server.
func (c *claimCluster) restartsAlone(t *testing.T) {
	before, id := c.run(t, "pidof", "cpupoold"), c.run(t, "crictl", "ps", "--quiet", "--name", "^app$")
	c.run(t, "sh", "-euc", "kill -TERM $(pidof cpupoold)")
	eventually(t, "another daemon runs", func(ctx context.Context) error {
		out, err := c.machines[0].Run(ctx, "pidof", "cpupoold")
		if err == nil && strings.TrimSpace(string(out)) == before {
			err = errors.New("it is the same process")
		}
		return err
	})
	eventually(t, "the daemon has the claim", func(ctx context.Context) error {
		cpus, err := c.has(ctx, "owner")
		if err == nil && cpus.String() != "2-3" {
			err = fmt.Errorf("its CPUs are %s", cpus)
		}
		return err
	})
	if sets := c.run(t, "sh", "-euc", `cat "$(find /sys/fs/cgroup/kubepods.slice -type d -name "cri-containerd-$0.scope")/cpuset.cpus.effective"`, id); sets != "2-3" {
		t.Errorf("without an API server, pod owner runs on %s; want 2-3", sets)
	}
}

// forced checks a claim that is deleted with its finalizers while its pod runs. The scheduler then counts the CPUs as free. The pod keeps them, and
// the next pod starts when the first one ends.
func (c *claimCluster) forced(t *testing.T) {
	owner := claimPod("owner")
	c.kubectl(t, "kubectl --namespace apps delete resourceclaim owner --wait=false")
	c.kubectl(t, `kubectl --namespace apps patch resourceclaim owner --type merge --patch '{"metadata": {"finalizers": null}}'`)
	c.claim(t, "next", "2", onNode(0))
	next := c.add(t, claimPod("next", "next"))
	c.reports(t, "next", "0 of 2 CPUs")
	c.runsOn(t, owner, "app", "2-3")
	c.end(t, "owner")
	c.running(t, "apps", "next")
	c.runsOn(t, next, "app", "2-3")
	c.end(t, "next")
	c.free(t, "2-3,6-7")
}

// upgrades checks that pods start at any time while the driver is replaced.
func (c *claimCluster) upgrades(t *testing.T) {
	c.kubectl(t, "kubectl -n cpupoold rollout restart daemonset cpupool-dra")
	done, longest, started := false, time.Duration(0), 0
	for ; !done; started++ {
		name, began := "upgrade-"+strconv.Itoa(started), time.Now()
		d, err := c.AppsV1().DaemonSets(daemonNamespace).Get(t.Context(), "cpupool-dra", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := d.Status
		done = s.ObservedGeneration == d.Generation && s.UpdatedNumberScheduled == 1 && s.NumberReady == 1 && s.NumberUnavailable == 0 && started > 1
		c.claim(t, name, "2")
		pod := c.launch(t, claimPod(name, name))
		longest = max(longest, time.Since(began))
		if got := c.cpusOf(t, pod, "app"); got.Len() != 2 || !got.IsSubsetOf(cpuset.Of(2, 3, 6, 7)) {
			t.Errorf("pod %s runs on %s; want two CPUs of claims", name, got)
		}
		if messages, err := c.messages(t.Context(), name); err != nil || strings.Contains(messages, "FailedPrepare") {
			t.Errorf("events of pod %s: %v\n%s", name, err, messages)
		}
		c.end(t, name)
	}
	t.Logf("%d pods started during the upgrade, the slowest after %v", started, longest)
	c.free(t, "2-3,6-7")
	c.capacities(t, 2, 2)
}
