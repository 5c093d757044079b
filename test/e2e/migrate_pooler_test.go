//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// poolConfig is a file of CPU-Pooler's, for nodes of Linux.
const poolConfig = `pools:
  exclusive_ran: {cpus: 4-7}
  shared_apps: {cpus: 2-3}
  default: {cpus: 0-1}
nodeSelector: {kubernetes.io/os: linux}
`

// pooled is the resource that the device plugin shows for its exclusive pool.
const pooled = "nokia.k8s.io/exclusive_ran"

// TestMigratePooler goes from CPU-Pooler to cpupoold and back, as the manual describes it. The cluster has CPU-Pooler's
// remains: its ConfigMap, a resource of the node, and pods that request it.
func TestMigratePooler(t *testing.T) {
	c := start(t, "8c2n")
	c.kubectl(t, "kubectl taint node "+nodeName+" cpupoold.io/starting-") // no other component removes it
	c.namespace(t, "apps", "")
	guide := read(t, "docs/how-to/migrate/cpu-pooler.md")
	c.plane.write(t, "poolconfig-worker.yaml", poolConfig)
	c.kubectl(t, "kubectl --namespace kube-system create configmap cpu-pooler-configmap --from-file=poolconfig-worker.yaml")
	c.kubectl(t, `kubectl patch node `+nodeName+` --subresource status --type json --patch '[{"op": "add", "path": "/status/capacity/nokia.k8s.io~1exclusive_ran", "value": "4"}]'`)
	c.deployPooled(t, "old")
	c.runsOn(t, "old", cpuset.Range(0, 7))

	c.bring(t)
	guide.follow(t, c, "kubectl --namespace kube-system get configmap cpu-pooler-configmap -o yaml >pools.yaml")
	for _, command := range []string{
		"kubectl cpupool import -f pools.yaml --pool-config poolconfig-worker.yaml --namespace kube-system >cpupoold.yaml",
		"kubectl get pods,namespaces -A -o json | kubectl cpupool simulate --topology 2s8c2t --config cpupoold.yaml --node $NODE -f -",
	} {
		c.kubectl(t, guide.command(t, command, c.pluginPath(t)))
	}
	c.configureAs(t, c.kubectl(t, "cat cpupoold.yaml"))
	c.withdrawPool(t)
	late := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "late", Annotations: pooledAnnotations()}, Spec: pooledSpec()}
	if _, err := c.CoreV1().Pods("apps").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.waitsFor(t, "apps", "late", pooled)
	read(t, "docs/how-to/install.md").follow(t, c, "ctr --namespace k8s.io images import cpupoold-image.tar")
	guide.follow(t, c, "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml", "kubectl create -f deploy/config.yaml", "kubectl --namespace cpupoold rollout status daemonset cpupoold")
	c.runsOn(t, "old", cpuset.Range(2, 3)) // as the manual warns
	c.deploy(t, "whole", "2|2")
	c.deploy(t, "part", "100m")
	c.apart(t, cpuset.Range(2, 7))
	c.runsOn(t, "part", cpuset.Range(2, 3))
	c.waitsFor(t, "apps", "late", pooled) // cpupoold does not show it in CPU-Pooler's place
	if out := c.plugin(t, "describe node $NODE"); !strings.Contains(out, "apps/whole-") {
		t.Errorf("the daemon does not report the pod with exclusive CPUs:\n%s", out)
	}

	guide.follow(t, c,
		"kubectl --namespace cpupoold delete daemonset cpupoold",
		"kubectl apply -f deploy/uninstall/restore.yaml",
		"kubectl --namespace cpupoold rollout status daemonset cpupoold-restore",
		"kubectl delete -f deploy/uninstall/restore.yaml -f deploy/rbac.yaml -f deploy/daemonset.yaml --ignore-not-found")
	for _, app := range []string{"old", "whole", "part"} {
		c.runsOn(t, app, cpuset.Range(0, 7))
	}
}

// configureAs puts a configuration that import has made into deploy/config.yaml.
func (c *cluster) configureAs(t *testing.T, configuration string) {
	t.Helper()
	_, pools, found := strings.Cut(configuration, "kind: CPUPoolConfiguration\n")
	if !found {
		t.Fatalf("import has printed %q", configuration)
	}
	c.configure(t, "\n    "+strings.ReplaceAll(strings.TrimSpace(pools), "\n", "\n    ")+"\n")
}

// withdrawPool removes the resource from the Node, as the end of CPU-Pooler's device plugin does.
func (c *cluster) withdrawPool(t *testing.T) {
	t.Helper()
	c.kubectl(t, `kubectl patch node `+nodeName+` --subresource status --type json --patch '[{"op": "remove", "path": "/status/capacity/nokia.k8s.io~1exclusive_ran"}, {"op": "remove", "path": "/status/allocatable/nokia.k8s.io~1exclusive_ran"}]'`)
	eventually(t, "the node shows no pool of CPU-Pooler's", func(ctx context.Context) error {
		node, err := c.node(ctx, nodeName)
		if err != nil {
			return err
		}
		if q, is := node.Status.Allocatable[pooled]; is {
			return fmt.Errorf("it has %v of %s", &q, pooled)
		}
		return nil
	})
}

// pooledSpec is a pod in CPU-Pooler's form, as its webhook leaves it: no CPU is requested but the pool's.
func pooledSpec() corev1.PodSpec {
	pod := spec("0")
	asks := &pod.Containers[0].Resources
	asks.Requests[pooled], asks.Limits = resource.MustParse("2"), corev1.ResourceList{pooled: resource.MustParse("2")}
	return pod
}

// pooledAnnotations returns annotations of CPU-Pooler that name the process that gets
// the CPUs.
func pooledAnnotations() map[string]string {
	return map[string]string{"nokia.k8s.io/cpus": `[{"container": "app", "processes": [{"process": "/work", "args": [], "pool": "exclusive_ran", "cpus": 2}]}]`}
}

// deployPooled is deploy of such a pod.
func (c *cluster) deployPooled(t *testing.T, name string) {
	t.Helper()
	labels, one := map[string]string{"app": name}, int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: pooledAnnotations()}, Spec: pooledSpec()},
	}}
	if _, err := c.AppsV1().Deployments("apps").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// runsOn waits until the pod of a Deployment runs on these CPUs.
func (c *cluster) runsOn(t *testing.T, app string, want cpuset.Set) {
	t.Helper()
	eventually(t, app+" runs on "+want.String(), func(ctx context.Context) error {
		pod, err := c.only(ctx, app)
		if err != nil {
			return err
		}
		if got := c.cpus(t, pod); !got.Equal(want) {
			return fmt.Errorf("it runs on %s", got)
		}
		return nil
	})
}
