//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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
			t.Fatalf("the manual lacks the command %q", command)
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

// advertised returns a node's expected amount of each resource with these pools. Shared CPUs are reduced by CPUs that no resource counts. The
// daemon's own pod requests 20m of cpu, which no webhook has rewritten, so it is not counted either.
func advertised(uncounted int64) map[corev1.ResourceName]int64 {
	return map[corev1.ResourceName]int64{cores: 8000 - 20, shared: 2000 - uncounted, guaranteed: 4000}
}

// A release is an image with the manifests that belong to it.
type release struct {
	tar    string // file of the image
	image  string // name of the image
	deploy string // directory of the manifests
}

// thisRelease returns the release of the working tree.
func thisRelease() release {
	return release{tar: *image, image: "localhost/cpupoold/cpupoold:1", deploy: "../../deploy"}
}

// bring puts the image on each machine, and deploy/ with the pools of this file into the directory of kubectl.
func (c *cluster) bring(t *testing.T) {
	t.Helper()
	c.bringImage(t, thisRelease())
	c.use(t, thisRelease())
	c.configure(t, pools)
}

// bringImage copies the image of a release to each machine.
func (c *cluster) bringImage(t *testing.T, r release) {
	t.Helper()
	for _, m := range c.machines {
		m.bring(t, r.tar, "/root/cpupoold-image.tar")
	}
}

// use puts deploy/ of a release into the directory of kubectl, in the place of another one, and its image into the environment of commands.
func (c *cluster) use(t *testing.T, r release) {
	t.Helper()
	to := filepath.Join(c.plane.dir, "deploy")
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(r.deploy)); err != nil {
		t.Fatal(err)
	}
	c.plane.image = r.image
}

// configure replaces the pools in deploy/config.yaml. The text may contain other keys after the pools.
func (c *cluster) configure(t *testing.T, pools string) {
	t.Helper()
	const file = "deploy/config.yaml"
	text, err := os.ReadFile(filepath.Join(c.plane.dir, file))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = c.cutConfiguration(t), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	before, _, found := strings.Cut(string(text), "\n    partitions:")
	if !found {
		t.Fatalf("%s has no pools", file)
	}
	c.plane.write(t, file, before+pools)
}

// cutConfiguration removes the ConfigMap from deploy/daemonset.yaml, where earlier releases have it, and returns it.
func (c *cluster) cutConfiguration(t *testing.T) []byte {
	t.Helper()
	const file, separator = "deploy/daemonset.yaml", "\n---\n"
	text, err := os.ReadFile(filepath.Join(c.plane.dir, file))
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(string(text), separator)
	i := slices.IndexFunc(documents, func(d string) bool { return strings.Contains(d, "\nkind: ConfigMap\n") })
	if i < 0 {
		t.Fatalf("%s has no ConfigMap", file)
	}
	c.plane.write(t, file, strings.Join(slices.Delete(slices.Clone(documents), i, i+1), separator))
	return []byte(documents[i])
}

// install follows the documents for a cluster of one node.
func (c *cluster) install(t *testing.T) {
	t.Helper()
	c.bring(t)
	c.installDaemon(t, advertised(0))
	c.installWebhook(t)
}

// installDaemon follows docs/how-to/install.md, and waits until each machine shows these resources.
func (c *cluster) installDaemon(t *testing.T, resources map[corev1.ResourceName]int64) {
	t.Helper()
	read(t, "docs/how-to/install.md").follow(t, c,
		"ctr --namespace k8s.io images import cpupoold-image.tar", "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml", "kubectl create -f deploy/config.yaml")
	for _, m := range c.machines {
		c.shows(t, m.name, resources)
	}
}

// installWebhook follows the documents on a node with a daemon that shows all resources.
func (c *cluster) installWebhook(t *testing.T) {
	t.Helper()
	webhook := read(t, "docs/how-to/install-webhook.md")
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

// condition returns the status of the daemon's condition, or an empty string without
// one.
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
