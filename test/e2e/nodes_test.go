//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/prometheus"
)

var kubectlCPUPool = flag.String("kubectl-cpupool", "../../bin/kubectl-cpupool", "the program for the node's static pods, as make build makes it")

// The pools of both kinds of nodes: four CPUs of a control plane, and two of a worker.
var profiles = map[string]string{
	"control-plane": `
    partitions:
    - type: management
      cpus: 0-1
      namespaces: [kube-system, cpupoold, cpupool-webhook, ops]
    shared:
      cpus: rest
    guaranteed:
      cpus: 3
`,
	"worker": `
    partitions:
    - type: management
      cpus: 0
      namespaces: [kube-system, cpupoold, cpupool-webhook, ops]
    shared:
      cpus: rest
    guaranteed:
      cpus: none
`,
}

// TestNodes checks small nodes of two kinds. The second one joins without cpupoold.
func TestNodes(t *testing.T) {
	c := start(t, "4c1n", "2c1n")
	if !t.Run("install", func(t *testing.T) { c.installProfiles(t) }) {
		return
	}
	c.namespace(t, "ops", "management")
	c.namespace(t, "apps", "")
	t.Run("static pod", func(t *testing.T) { hasStaticPod(t, c) })
	server := c.startPrometheus(t)
	if t.Run("join", func(t *testing.T) { joins(t, c, c.machines[1], server) }) {
		t.Run("profile", func(t *testing.T) { getsProfile(t, c, c.machines[1], server) })
	}
}

// installProfiles follows the documents for nodes of several kinds, of which only one exists yet. It has a static pod, as control planes
// have, which becomes a management pod by the steps of the documents.
func (c *cluster) installProfiles(t *testing.T) {
	t.Helper()
	c.bring(t)
	if err := os.CopyFS(filepath.Join(c.plane.dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	for name, pools := range profiles {
		file := "examples/kustomize/profiles/" + name + "/config.yaml"
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		begin := strings.Index(string(text), "\n    partitions:")
		if begin < 0 {
			t.Fatalf("%s has no pools", file)
		}
		c.plane.write(t, file, string(text[:begin])+pools)
	}
	c.addStaticPod(t)
	c.kubectl(t, "kubectl taint node "+nodeName+" node-role.kubernetes.io/control-plane:NoSchedule")
	c.kubectl(t, "kubectl label node "+nodeName+" node.example.com/kind=control-plane")
	read(t, "docs/how-to/install.md").follow(t, c, "ctr --namespace k8s.io images import cpupoold-image.tar", "kubectl apply -k examples/kustomize/profiles")
	c.shows(t, nodeName, onControlPlane())
	c.installWebhook(t)
}

// onControlPlane returns the expected resources of the first node.
func onControlPlane() map[corev1.ResourceName]int64 {
	return map[corev1.ResourceName]int64{cores: 4000 - 20, shared: 1000, guaranteed: 1000}
}

// addStaticPod gives the first node a static pod, and makes it one of management.
func (c *cluster) addStaticPod(t *testing.T) {
	t.Helper()
	pod, err := json.Marshal(&corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: "etcd", Namespace: "kube-system"},
		Spec:       spec("100m"),
	})
	if err != nil {
		t.Fatal(err)
	}
	c.plane.write(t, "etcd.json", string(pod))
	m := c.machines[0]
	m.bring(t, filepath.Join(c.plane.dir, "etcd.json"), "/etc/kubernetes/manifests/etcd.json")
	m.bring(t, *kubectlCPUPool, "/root/kubectl-cpupool")
	m.run(t, "/root/kubectl-cpupool", "mutate", "--in-place", "--target", "management", "-f", "/etc/kubernetes/manifests")
}

// hasStaticPod checks that the control plane's pod is on management CPUs, and counts none of the
// scheduler's.
func hasStaticPod(t *testing.T, c *cluster) {
	pod := c.running(t, "kube-system", "etcd-"+nodeName)
	if cpu, of := milli(pod, corev1.ResourceCPU), milli(pod, cores); cpu != 0 || of != 100 {
		t.Errorf("it requests %d of cpu and %d of %s; want 0 and 100", cpu, of, cores)
	}
	c.isOn(t, pod, nodeName, cpuset.Range(0, 1))
	if got, want := c.file(t, pod, "cpu.weight"), strconv.FormatUint(cgroup.WeightQuadratic(102), 10); got != want {
		t.Errorf("its weight = %s; want %s", got, want)
	}
}

// joins checks a node that joins while cpupoold does not run on it. It opens no latch, gets no pods of
// pools, and gets all others.
func joins(t *testing.T, c *cluster, m *machine, server prometheus.Server) {
	before := c.latches(t)
	c.join(t, m, "testdata/node/etc")
	eventually(t, "new pods do not request shared CPUs", func(ctx context.Context) error {
		pod, err := c.dryRun(ctx, "apps", nil, "100m")
		if err == nil && milli(pod, shared) != 0 {
			err = fmt.Errorf("one requests %v", pod.Spec.Containers[0].Resources.Requests)
		}
		return err
	})
	c.makeAt(t, "apps", "early", m.name, nil, "100m")
	c.makeAt(t, "ops", "waiting", m.name, management(), "100m")
	c.makeAt(t, "apps", "waiting", m.name, nil, "1|1")
	c.waitsFor(t, "ops", "waiting", cores)
	c.waitsFor(t, "apps", "waiting", guaranteed)
	c.isOn(t, c.running(t, "apps", "early"), m.name, cpuset.Range(0, 1))
	// Where they are counted, there are pods of pools as before.
	c.makeAt(t, "ops", "monitor", "", management(), "100m")
	c.makeAt(t, "apps", "whole", "", nil, "1|1")
	c.isOn(t, c.running(t, "ops", "monitor"), nodeName, cpuset.Range(0, 1))
	c.isOn(t, c.running(t, "apps", "whole"), nodeName, cpuset.Of(3))
	if after := c.latches(t); len(before) != 3 || !maps.Equal(before, after) {
		t.Errorf("latches are %v, before the node joined they were %v; want three, and the same", after, before)
	}
	fires(t, server, "CPUPoolResourceMissing", func(context.Context) error { return nil })
}

// getsProfile changes the kind of the node. Then cpupoold starts there, places the running pods, and its pools are used.
func getsProfile(t *testing.T, c *cluster, m *machine, server prometheus.Server) {
	c.kubectl(t, "kubectl label node "+m.name+" node.example.com/kind=worker")
	const early = 100 // of the pod that is not counted
	c.shows(t, m.name, map[corev1.ResourceName]int64{cores: 2000 - 20, shared: 1000 - early, guaranteed: 0})
	c.asks(t, "apps")
	ends(t, server, "CPUPoolResourceMissing")
	c.isOn(t, c.running(t, "apps", "early"), m.name, cpuset.Of(1))
	c.isOn(t, c.running(t, "ops", "waiting"), m.name, cpuset.Of(0))
	c.waitsFor(t, "apps", "waiting", guaranteed) // this kind has no guaranteed pool
	// The other node is tainted, and of cpu this one has enough.
	c.make(t, "apps", "fits", nil, "600m")
	c.make(t, "apps", "late", nil, "600m")
	c.isOn(t, c.running(t, "apps", "fits"), m.name, cpuset.Of(1))
	c.waitsFor(t, "apps", "late", shared)
	// And the first node is as it was.
	c.shows(t, nodeName, onControlPlane())
	c.isOn(t, c.running(t, "kube-system", "etcd-"+nodeName), nodeName, cpuset.Range(0, 1))
	c.isOn(t, c.running(t, "apps", "whole"), nodeName, cpuset.Of(3))
}

// latches returns the latches of the webhook.
func (c *cluster) latches(t *testing.T) map[string]string {
	t.Helper()
	stored, err := c.CoreV1().ConfigMaps(webhookNamespace).Get(t.Context(), "cpupool-webhook-latches", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored.Data
}

// makeAt makes a pod that tolerates a control plane, for one node, or for any if that is empty.
func (c *cluster) makeAt(t *testing.T, namespace, name, node string, annotations map[string]string, cpus string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Spec: spec(cpus)}
	pod.Spec.Tolerations = []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}}
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	if _, err := c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatalf("create pod %s/%s: %v", namespace, name, err)
	}
}

// isOn checks that a pod runs on these CPUs of a node.
func (c *cluster) isOn(t *testing.T, pod *corev1.Pod, node string, want cpuset.Set) {
	t.Helper()
	if pod.Spec.NodeName != node {
		t.Fatalf("pod %s/%s is on node %s; want %s", pod.Namespace, pod.Name, pod.Spec.NodeName, node)
	}
	if got := c.cpus(t, pod); !got.Equal(want) {
		t.Errorf("pod %s/%s runs on %v; want %v", pod.Namespace, pod.Name, got, want)
	}
}
