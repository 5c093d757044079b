//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// staticKubelet is a drop-in of a kubelet that gives containers CPUs itself.
const staticKubelet = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {strict-cpu-reservation: "true"}
cpuManagerReconcilePeriod: 1s
reservedSystemCPUs: "0-1"
`

// TestMigrate goes from the kubelet's static policy to cpupoold and back, as the manual says.
func TestMigrate(t *testing.T) {
	c := start(t, "8c2n")
	c.kubectl(t, "kubectl taint node "+nodeName+" cpupoold.io/starting-") // no other component removes it
	c.namespace(t, "apps", "")
	guide := read(t, "docs/how-to/migrate/kubelet-static.md")
	change := []string{"systemctl stop kubelet", "rm -f /var/lib/kubelet/cpu_manager_state", "systemctl start kubelet"}
	c.setKubelet(t, staticKubelet)
	guide.follow(t, c, change...)
	c.deploy(t, "whole", "2|2")
	c.deploy(t, "part", "100m")
	rest := cpuset.Range(2, 7)
	c.apart(t, rest)

	c.bring(t)
	c.plane.write(t, "kubelet.yaml", staticKubelet)
	c.kubectl(t, guide.command(t, "kubectl cpupool import -f kubelet.yaml --namespace kube-system >cpupoold.yaml", c.pluginPath(t)))
	c.configureAs(t, c.kubectl(t, "cat cpupoold.yaml"))
	c.kubectl(t, guide.command(t, "kubectl get pods,namespaces -A -o json | kubectl cpupool simulate --topology 2s8c2t --config cpupoold.yaml --node $NODE -f -", c.pluginPath(t)))
	const drain = "kubectl drain $NODE --ignore-daemonsets --delete-emptydir-data"
	guide.follow(t, c, drain)
	c.setKubelet(t, "")
	guide.follow(t, c, change...)
	read(t, "docs/how-to/install.md").follow(t, c, "ctr --namespace k8s.io images import cpupoold-image.tar")
	guide.follow(t, c, "kubectl apply -f deploy/daemonset.yaml -f deploy/rbac.yaml", "kubectl create -f deploy/config.yaml", "kubectl --namespace cpupoold rollout status daemonset cpupoold", "kubectl uncordon $NODE")
	c.apart(t, rest)
	if out := c.plugin(t, "describe node $NODE"); !strings.Contains(out, "apps/whole-") {
		t.Errorf("the daemon does not report the pod with exclusive CPUs:\n%s", out)
	}

	guide.follow(t, c, drain,
		"kubectl --namespace cpupoold delete daemonset cpupoold",
		"kubectl apply -f deploy/uninstall/restore.yaml",
		"kubectl --namespace cpupoold rollout status daemonset cpupoold-restore",
		"kubectl delete -f deploy/uninstall/restore.yaml -f deploy/rbac.yaml -f deploy/daemonset.yaml --ignore-not-found")
	c.setKubelet(t, staticKubelet)
	guide.follow(t, c, change...)
	guide.follow(t, c, "kubectl uncordon $NODE")
	c.apart(t, rest)
}

// command returns a command of the manual, with before in front of it.
func (m manual) command(t *testing.T, command, before string) string {
	t.Helper()
	if !strings.Contains(string(m), command) {
		t.Fatalf("the manual lacks the command %q", command)
	}
	return before + command
}

// setKubelet makes a drop-in of the kubelet's configuration, or takes it away.
func (c *cluster) setKubelet(t *testing.T, text string) {
	t.Helper()
	c.run(t, "sh", "-euc", `if [ -n "$0" ]; then printf '%s' "$0" >/etc/kubernetes/kubelet.conf.d/static.conf; else rm /etc/kubernetes/kubelet.conf.d/static.conf; fi`, text)
}

// deploy makes a Deployment of one pod, which comes again after it has been evicted.
func (c *cluster) deploy(t *testing.T, name, cpus string) {
	t.Helper()
	labels, one := map[string]string{"app": name}, int32(1)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec(cpus)},
	}}
	if _, err := c.AppsV1().Deployments("apps").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// apart waits until the pod with whole CPUs has two of these to itself, and the other one runs on none of the two.
func (c *cluster) apart(t *testing.T, all cpuset.Set) {
	t.Helper()
	var whole, part *corev1.Pod
	eventually(t, "both pods run", func(ctx context.Context) (err error) {
		if whole, err = c.only(ctx, "whole"); err == nil {
			part, err = c.only(ctx, "part")
		}
		return err
	})
	var own, others cpuset.Set
	eventually(t, "one has exclusive CPUs", func(context.Context) error {
		own, others = c.cpus(t, whole), c.cpus(t, part)
		if own.Len() != 2 || !own.IsSubsetOf(all) || own.Overlaps(others) || !others.IsSubsetOf(all) {
			return fmt.Errorf("it runs on %v, the other one on %v; want two of %v, which the other one does not have", own, others, all)
		}
		return nil
	})
	t.Logf("whole CPUs: %v, others: %v", own, others)
}

// only is the ready pod of a Deployment.
func (c *cluster) only(ctx context.Context, app string) (*corev1.Pod, error) {
	pods, err := c.CoreV1().Pods("apps").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("there are %d pods of %s", len(pods.Items), app)
	}
	if !ready(&pods.Items[0]) {
		return nil, errors.New("pod " + pods.Items[0].Name + " is not ready")
	}
	return &pods.Items[0], nil
}
