//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// waitTimeout bounds every wait on the emulated cluster. Only a failure uses it up.
const waitTimeout = 6 * time.Minute

// A cluster is a control plane on this machine with nodes, which are guests, and a client of its administrator.
type cluster struct {
	*kubernetes.Clientset

	plane    *controlPlane
	machines []*machine
}

// start makes a node, which has just booted, the first one of a new cluster, and waits until that takes pods. The machines of other topologies
// boot as well, and may join later.
func start(t *testing.T, topologies ...string) *cluster {
	t.Helper()
	return startGated(t, "", topologies...)
}

// startGated is start with feature gates, such as NAME=true, in the control plane and in the kubelet of the first node.
func startGated(t *testing.T, gates string, topologies ...string) *cluster {
	t.Helper()
	c := &cluster{machines: boot(t, topologies)}
	c.plane = startControlPlane(t, c.machines, gates)
	c.Clientset = c.plane.client(t)
	for _, m := range c.machines {
		listenInGuest(t, m.VM, "127.0.0.1:6443", c.plane.address)
	}
	c.machines[0].gate(t, gates)
	t.Cleanup(func() {
		if t.Failed() {
			c.show(t)
		}
	})
	c.join(t, c.machines[0], "testdata/node/etc", "testdata/startup/etc")
	return c
}

// join makes the kubelet of a machine one of the cluster; the directories become its /etc.
func (c *cluster) join(t *testing.T, m *machine, etc ...string) {
	t.Helper()
	m.join(t, c.plane, etc)
	eventually(t, "node "+m.name+" joins", func(ctx context.Context) error {
		node, err := c.node(ctx, m.name)
		if err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", node.Status.Conditions)
	})
}

// run runs a command on the first node, and returns its output.
func (c *cluster) run(t *testing.T, command ...string) string {
	t.Helper()
	return c.machines[0].run(t, command...)
}

// kubectl runs a line with kubectl on this machine, where the repository's deploy/ is.
func (c *cluster) kubectl(t *testing.T, line string) string {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	cmd := c.plane.command(ctx, line)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = string(exit.Stderr)
		}
		t.Fatalf("%s: %v: %s%s", line, err, out, stderr)
	}
	t.Logf("%s # %v", line, time.Since(began).Round(100*time.Millisecond))
	return strings.TrimSpace(string(out))
}

// show logs the state that explains a failure of a cluster.
func (c *cluster) show(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, line := range []string{"kubectl get pods -A -o wide", "kubectl describe node", "kubectl get events -A"} {
		out, err := c.plane.command(ctx, line).CombinedOutput()
		t.Logf("%s: %v\n%s", line, err, out)
	}
	for _, m := range c.machines { // from the files: the failure may be a kubelet's
		out, err := m.Run(ctx, "sh", "-c", "tail -n 50 /var/log/pods/*/*/*.log")
		t.Logf("logs of pods of %s: %v\n%s", m.name, err, out)
	}
}

// eventually asks until there is no error.
func eventually(t *testing.T, what string, ask func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	began, again := time.Now(), time.NewTicker(500*time.Millisecond)
	defer again.Stop()
	var last error // last error other than the timeout
	for {
		err := ask(ctx)
		if err == nil {
			t.Logf("%s after %v", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %v: %v", what, waitTimeout, last)
		}
	}
}

// node is the Node of a machine.
func (c *cluster) node(ctx context.Context, name string) (*corev1.Node, error) {
	return c.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
}

// namespace makes one; allowed is the workload type that it allows.
func (c *cluster) namespace(t *testing.T, name, allowed string) {
	t.Helper()
	n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if allowed != "" {
		n.Annotations = map[string]string{"workload.openshift.io/allowed": allowed}
	}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "account of namespace "+name, func(ctx context.Context) error {
		_, err := c.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// running waits until a pod is Ready, and returns it.
func (c *cluster) running(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "pod "+namespace+"/"+name+" runs", func(ctx context.Context) (err error) {
		if pod, err = c.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err == nil && !ready(pod) {
			err = fmt.Errorf("its conditions are %+v", pod.Status.Conditions)
		}
		return err
	})
	return pod
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
