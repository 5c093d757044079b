//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// TestClaimRestarts restarts each part of the node three times in the life of a claim: before its container is created, while the container runs, and
// while it ends. The container has the CPUs of the preparation each time. The CPUs are free afterwards.
func TestClaimRestarts(t *testing.T) {
	c := startClaims(t, "", reservedWithout)
	c.installDriver(t)
	for _, p := range c.parts() {
		t.Run(p.name, func(t *testing.T) { c.lives(t, p) })
	}
}

// TestClaimReboot cuts the power of a node with claims.
func TestClaimReboot(t *testing.T) {
	c := startClaims(t, "", reservedWithout)
	c.installDriver(t)
	c.reboots(t)
}

// parts returns the programs of the node that restart.
func (c *claimCluster) parts() []part {
	return []part{
		{name: "daemon", down: c.deletes("cpupoold"), up: func(t *testing.T) { c.restarted(t, "cpupoold") }},
		{name: "driver", down: c.deletes("cpupool-dra"), up: func(t *testing.T) { c.restarted(t, "cpupool-dra") }},
		{name: "kubelet", down: c.systemctl("stop", "kubelet"), up: c.systemctl("start", "kubelet")},
		{name: "containerd", down: c.systemctl("stop", "containerd"), up: c.systemctl("start", "containerd")},
	}
}

// A part is a program of the node.
type part struct {
	name     string
	down, up func(*testing.T)
}

// systemctl returns a call of systemctl.
func (c *claimCluster) systemctl(verb, unit string) func(*testing.T) {
	return func(t *testing.T) { c.run(t, "systemctl", verb, unit) }
}

// deletes returns a function that deletes the pod of a DaemonSet.
func (c *claimCluster) deletes(name string) func(*testing.T) {
	return func(t *testing.T) {
		c.kubectl(t, "kubectl --namespace cpupoold delete pod --selector app.kubernetes.io/name="+name)
	}
}

// restarted waits until a DaemonSet has a pod that is ready, and that the driver publishes all CPUs.
func (c *claimCluster) restarted(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" is ready again", func(ctx context.Context) error {
		pods, err := c.CoreV1().Pods(daemonNamespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + name})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if pods.Items[i].DeletionTimestamp == nil && ready(&pods.Items[i]) {
				return nil
			}
		}
		return errors.New("no pod is")
	})
	c.capacities(t, 2, 2)
}

// lives takes a claim from the preparation to the end, and restarts a part in between.
func (c *claimCluster) lives(t *testing.T, p part) {
	restart := func() {
		t.Helper()
		p.down(t)
		p.up(t)
	}
	c.claim(t, p.name, "2", onNode(1))
	pod := c.add(t, heldPod(p.name))
	c.held(t, pod)
	c.keepsClaim(t, p.name)
	restart()
	c.keepsClaim(t, p.name)
	c.release(t, pod)
	c.runsOn(t, pod, "app", "6-7")

	before := c.container(t, p.name)
	restart()
	c.keepsClaim(t, p.name)
	c.moves(t, pod, "app", "6-7")
	if after := c.container(t, p.name); after != before {
		t.Errorf("container of the pod = %s; want %s", after, before)
	}
	c.second(t, p.name)

	p.down(t)
	if err := c.CoreV1().Pods("apps").Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.up(t)
	c.free(t, "2-3,6-7")
	if err := c.ResourceV1().ResourceClaims("apps").Delete(t.Context(), p.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// keepsClaim waits until the daemon has a claim with CPUs 6-7.
func (c *claimCluster) keepsClaim(t *testing.T, name string) {
	t.Helper()
	eventually(t, "claim "+name+" has CPUs 6-7", func(ctx context.Context) error {
		cpus, err := c.has(ctx, name)
		if err == nil && cpus.String() != "6-7" {
			err = fmt.Errorf("it has %s", cpus)
		}
		return err
	})
}

// container returns the ID of the container of a pod that is Ready.
func (c *claimCluster) container(t *testing.T, name string) string {
	t.Helper()
	return c.running(t, "apps", name).Status.ContainerStatuses[0].ContainerID
}

// second checks that another pod gets the CPUs of the other node.
func (c *claimCluster) second(t *testing.T, beside string) {
	t.Helper()
	c.claim(t, "beside", "2")
	pod := c.launch(t, claimPod("beside", "beside"))
	c.runsOn(t, pod, "app", "2-3")
	c.runsOn(t, claimPod(beside), "app", "6-7")
	c.end(t, "beside")
}

// reboots checks that pods have the same CPUs after the node has lost its power, also a pod without a container at that time. The files of CDI
// are lost.
func (c *claimCluster) reboots(t *testing.T) {
	c.claim(t, "running", "1", onNode(1))
	running := c.launch(t, claimPod("running", "running"))
	c.claim(t, "waiting", "1", onNode(1))
	waiting := c.add(t, heldPod("waiting"))
	c.held(t, waiting)
	cpus := c.cpusOf(t, running, "app").String()
	later, err := c.has(t.Context(), "waiting")
	if err != nil {
		t.Fatal(err)
	}
	before := c.container(t, "running")
	c.machines[0].reboot(t, c.plane)
	c.restarted(t, "cpupool-dra")
	c.moves(t, running, "app", cpus)
	if after := c.container(t, "running"); after == before {
		t.Errorf("the container %s outlived the reboot", after)
	}
	c.held(t, waiting)
	c.release(t, waiting)
	c.runsOn(t, waiting, "app", later.String())
	if files := c.run(t, "sh", "-c", "ls /var/run/cdi"); strings.Count(files, dra.Driver) < 2 {
		t.Errorf("CDI files = %s; want one of each claim", files)
	}
	c.end(t, "running", "waiting")
	c.free(t, "2-3,6-7")
}
