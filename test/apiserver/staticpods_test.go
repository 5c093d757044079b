//go:build apiserver

package apiserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

var plugin = flag.String("plugin", "../../bin/kubectl-cpupool", "the plugin of kubectl, as make build makes it")

// A component is a static pod of a control plane.
type component struct{ name, cpu, memory string }

// Components of kubeadm 1.37, in the order in which docs/how-to/install/high-availability.md changes
// them.
func components() []component {
	return []component{
		{"kube-scheduler", "100m", ""},
		{"kube-controller-manager", "200m", ""},
		{"kube-apiserver", "250m", ""},
		{"etcd", "100m", ", memory: 100Mi"},
	}
}

// file returns the manifest's file on a control plane.
func (k component) file(p *controlPlane) string { return filepath.Join(p.manifests, k.name+".yaml") }

// writeManifest writes the manifest of kubeadm, without parts that the API server does not
// see.
func (k component) writeManifest(t *testing.T, p *controlPlane) {
	t.Helper()
	write(t, k.file(p), fmt.Appendf(nil, `apiVersion: v1
kind: Pod
metadata:
  labels: {component: %[1]s, tier: control-plane}
  name: %[1]s
  namespace: kube-system
spec:
  containers:
  - command: [%[1]s]
    image: registry.k8s.io/%[1]s:v1.37.0
    name: %[1]s
    resources:
      requests: {cpu: %[2]s%[3]s}
  hostNetwork: true
  priorityClassName: system-node-critical
`, k.name, k.cpu, k.memory))
}

// kubectl runs `kubectl cpupool mutate` for the manifest, with the flags of the guide.
func (k component) kubectl(t *testing.T, p *controlPlane, action string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), *plugin, "mutate", action, "--target", "management", "--request-memory", "64Mi", "-f", k.file(p)).CombinedOutput()
	if err != nil {
		t.Fatalf("mutate %s %s: %v: %s", action, k.file(p), err, out)
	}
}

// mirror returns the copy of the static pod that the kubelet creates.
func (k component) mirror(t *testing.T, s *apiServer, p *controlPlane) *corev1.Pod {
	t.Helper()
	data, err := os.ReadFile(k.file(p))
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(data, pod); err != nil {
		t.Fatal(err)
	}
	node, err := s.client(t, admin).CoreV1().Nodes().Get(t.Context(), p.name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	sum, yes := sha256.Sum256(data), true
	hash := hex.EncodeToString(sum[:])
	for key, value := range map[string]string{
		corev1.MirrorPodAnnotationKey: hash, "kubernetes.io/config.hash": hash,
		"kubernetes.io/config.seen": "2026-01-01T00:00:00Z", "kubernetes.io/config.source": "file",
	} {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	pod.Name += "-" + p.name
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: p.name, UID: node.UID, Controller: &yes}}
	pod.Spec.NodeName = p.name
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
	return pod
}

// show replaces the mirror pod on a control plane, as its kubelet does after a change of the
// file.
func (c *controlPlanes) show(t *testing.T, p *controlPlane, k component) {
	t.Helper()
	pods, pod := p.client(t, p.identity()).CoreV1().Pods("kube-system"), k.mirror(t, p.apiServer, p)
	at := int64(0)
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &at}); err != nil && !apierrors.IsNotFound(err) {
		t.Errorf("delete mirror pod %s: %v", pod.Name, err)
	}
	got, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	checkMirror(t, pod, got, err)
}

// checkMirror checks that a mirror pod was created without a change.
func checkMirror(t *testing.T, pod, got *corev1.Pod, err error) {
	t.Helper()
	switch {
	case err != nil:
		t.Errorf("mirror pod %s: %v", pod.Name, err)
	case !maps.Equal(got.Annotations, pod.Annotations) || requests(got) != requests(pod):
		t.Errorf("mirror pod %s has the annotations %v and requests %s, want %v and %s", pod.Name, got.Annotations, requests(got), pod.Annotations, requests(pod))
	}
}

// accept checks that each API server accepts the mirror pods of all control planes. In the
// order of the guide, the first mirror pods are changed, and the others are as kubeadm wrote
// them.
func (c *controlPlanes) accept(t *testing.T, changed int) {
	t.Helper()
	for _, p := range c.all {
		for _, k := range components() {
			of := c.any()
			pod, want := k.mirror(t, of, p), "cpu="+k.cpu
			if changed > 0 {
				want = cores + "=" + k.cpu[:len(k.cpu)-1]
			}
			changed--
			if got := requests(pod); got != want {
				t.Errorf("mirror pod %s requests %s, want %s", pod.Name, got, want)
			}
			if asks := pod.Annotations[target] != ""; asks != (want != "cpu="+k.cpu) {
				t.Errorf("annotations of mirror pod %s = %v; want a type only for rewritten requests", pod.Name, pod.Annotations)
			}
			pod.Name = "again-" + pod.Name
			for _, through := range c.up() {
				var got *corev1.Pod
				eventually(t, "an answer of "+through.name, func(ctx context.Context) (err error) {
					got, err = through.client(t, p.identity()).CoreV1().Pods("kube-system").Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
					if err != nil && unavailable(err) {
						return err
					}
					checkMirror(t, pod, got, err)
					return nil
				})
			}
		}
	}
}

// changeStaticPods changes one static pod after the other, while pods are created.
func changeStaticPods(t *testing.T, c *controlPlanes) {
	for _, p := range c.all {
		for _, k := range components() {
			k.writeManifest(t, p)
			c.show(t, p, k)
		}
	}
	c.accept(t, 0)
	stop := c.keepCreating(t)
	changed := 0
	for _, p := range c.all {
		for _, k := range components() {
			k.kubectl(t, p, "--in-place")
			switch k.name {
			case "kube-apiserver":
				c.restart(p, func() {
					p.server.Process.End(c.t, waitTimeout)
					p.server.Start(c.t)
				})
			case "etcd":
				c.restart(p, func() {
					p.server.Etcd.End(c.t, waitTimeout)
					p.server.StartEtcd(c.t)
				})
			}
			before := c.created()
			c.show(t, p, k)
			changed++
			c.accept(t, changed)
			c.createdSince(t, before)
			if now := c.latches(t); now != c.latch {
				t.Errorf("latches changed after %s on %s; want no change", k.name, p.name)
			}
		}
	}
	stop()

	last := c.all[len(c.all)-1]
	for _, k := range slices.Backward(components()) {
		k.kubectl(t, last, "--restore")
		c.show(t, last, k)
		changed--
		c.accept(t, changed)
	}
}
