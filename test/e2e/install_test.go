//go:build e2e

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var image = flag.String("image", "../../bin/cpupoold-image.tar", "the image to test, as make image makes it")

// The namespaces of deploy/.
const (
	daemonNamespace  = "cpupoold"
	webhookNamespace = "cpupool-webhook"
)

// A manual is a text with commands in it.
type manual string

func read(t *testing.T, file string) manual {
	t.Helper()
	text, err := os.ReadFile("../../" + file)
	if err != nil {
		t.Fatal(err)
	}
	return manual(strings.Join(strings.Fields(string(text)), " "))
}

// follow runs commands as the manual has them: kubectl on this machine, all others on each of the cluster's.
func (m manual) follow(t *testing.T, c *cluster, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if !strings.Contains(string(m), command) {
			t.Fatalf("the manual has no command %q (any more)", command)
		}
		if strings.HasPrefix(command, "kubectl ") {
			c.kubectl(t, command)
		} else {
			for _, m := range c.machines {
				m.run(t, "sh", "-euc", "cd /root; "+command)
			}
		}
	}
}

// The pools of the daemon in the tests, for eight CPUs.
const pools = `
    partitions:
    - type: management
      cpus: 0-1
      namespaces: [kube-system, cpupoold, cpupool-webhook, ops]
    shared:
      cpus: rest
    guaranteed:
      cpus: 4-7
`

// advertised is what a node with these pools has of each resource, of shared CPUs less what no resource counts. The daemon's own pod requests
// 20m of cpu, and no webhook has made that something else: it is not counted either.
func advertised(uncounted int64) map[corev1.ResourceName]int64 {
	return map[corev1.ResourceName]int64{cores: 8000 - 20, shared: 2000 - uncounted, guaranteed: 4000}
}

// bring puts the image on each machine, and deploy/ with these pools where kubectl runs.
func (c *cluster) bring(t *testing.T) {
	t.Helper()
	for _, m := range c.machines {
		m.bring(t, *image, "/root/cpupoold-image.tar")
	}
	if err := os.CopyFS(filepath.Join(c.plane.dir, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	c.configure(t, pools)
}

// configure puts these pools, and what else there is to configure, into deploy/daemonset.yaml.
func (c *cluster) configure(t *testing.T, pools string) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	begin, end := strings.Index(string(text), "\n    partitions:"), strings.Index(string(text), "\n---\napiVersion: apps/v1")
	if begin < 0 || end < begin {
		t.Fatal("deploy/daemonset.yaml has no pools in a ConfigMap before the DaemonSet")
	}
	c.plane.write(t, "deploy/daemonset.yaml", string(text[:begin])+pools+string(text[end+1:]))
}

// install does what the documents say.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	deployment := read(t, "docs/deployment.md")
	c.bring(t)
	deployment.follow(t, c, "ctr --namespace k8s.io images import cpupoold-image.tar", "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml")
	c.shows(t, nodeName, advertised(0))
	c.installWebhook(t)
}

// installWebhook does what the documents say, where there is a daemon that shows all resources.
func (c *cluster) installWebhook(t *testing.T) {
	t.Helper()
	webhook := read(t, "docs/webhook.md")
	webhook.follow(t, c,
		"kubectl apply -f deploy/webhook/webhook.yaml",
		"kubectl -n cpupool-webhook rollout status deployment cpupool-webhook",
		"kubectl apply -f deploy/webhook/admission.yaml",
		"kubectl apply -f deploy/webhook/trust.yaml",
		"kubectl annotate namespace kube-system workload.openshift.io/allowed=management")
	c.latched(t, cores, shared, guaranteed)
}

// shows waits until a node shows this much of each resource, and that its pools are ready, and lets pods in.
func (c *cluster) shows(t *testing.T, name string, resources map[corev1.ResourceName]int64) {
	t.Helper()
	eventually(t, "node "+name+" shows its pools", func(ctx context.Context) error {
		node, err := c.node(ctx, name)
		if err != nil {
			return err
		}
		for name, want := range resources {
			capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
			if capacity.Value() != want || allocatable.Value() != want {
				return fmt.Errorf("of %s it has %v, and %v to allocate; want %d", name, &capacity, &allocatable, want)
			}
		}
		if status := condition(node); status != corev1.ConditionTrue {
			return fmt.Errorf("its condition is %q", status)
		}
		for _, taint := range node.Spec.Taints {
			if taint.Key == "cpupoold.io/starting" {
				return fmt.Errorf("it has the taint %v", taint)
			}
		}
		return nil
	})
}

// condition is the status of the daemon's condition, empty when there is none.
func condition(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == "CPUPoolsReady" {
			return c.Status
		}
	}
	return ""
}

// latched waits until the webhook asks for these resources.
func (c *cluster) latched(t *testing.T, resources ...corev1.ResourceName) {
	t.Helper()
	const name = "latched"
	c.namespace(t, name, "management")
	pods := map[corev1.ResourceName]struct {
		annotations map[string]string
		cpus        string
	}{cores: {management(), "1"}, shared: {nil, "100m"}, guaranteed: {nil, "1|1"}}
	for _, what := range resources {
		p := pods[what]
		eventually(t, "pods ask for "+string(what), func(ctx context.Context) error {
			pod, err := c.dryRun(ctx, name, p.annotations, p.cpus)
			if err == nil && milli(pod, what) == 0 {
				err = fmt.Errorf("one requests %v", pod.Spec.Containers[0].Resources.Requests)
			}
			return err
		})
	}
}
