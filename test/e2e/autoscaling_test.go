//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agent is the name of a Deployment of management pods in namespace ops, and of its autoscaler.
const agent = "agent"

// TestAutoscaling scales a Deployment of management pods by the HPA controller. The steps build on each other.
func TestAutoscaling(t *testing.T) {
	program := buildAdapter(t)
	c := start(t, "8c2n")
	c.install(t)
	c.namespace(t, "ops", "management")
	c.startAdapter(t, program)
	c.burn(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{{"utilization of cpu", c.ignoresUtilization}, {"metric of the daemon", c.scalesByMetric}} {
		if !t.Run(step.name, step.run) {
			return
		}
	}
}

// burn creates a Deployment of one management pod that uses all of its limit, which is twice its request.
func (c *cluster) burn(t *testing.T) {
	t.Helper()
	pod := spec("100m")
	pod.Containers[0].Args = []string{"spin", "1"}
	pod.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200m")}
	one, labels := int32(1), map[string]string{"app": agent}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: agent}, Spec: appsv1.DeploymentSpec{
		Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: management()}, Spec: pod},
	}}
	if _, err := c.AppsV1().Deployments("ops").Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.replicas(t, 1)
}

// replicas waits until the Deployment has this many ready pods.
func (c *cluster) replicas(t *testing.T, want int32) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods are ready", want), func(ctx context.Context) error {
		d, err := c.AppsV1().Deployments("ops").Get(ctx, agent, metav1.GetOptions{})
		if err == nil && (*d.Spec.Replicas != want || d.Status.ReadyReplicas != want) {
			err = fmt.Errorf("%d of %d are ready", d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
		return err
	})
}

// autoscale applies an autoscaler of testdata, and returns kubectl's output with the warnings.
func (c *cluster) autoscale(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/autoscaling", file))
	if err != nil {
		t.Fatal(err)
	}
	c.plane.write(t, file, string(text))
	return c.kubectl(t, "kubectl apply -f "+file+" 2>&1")
}

// active waits until the condition ScalingActive of the autoscaler has a status, and text in its message.
func (c *cluster) active(t *testing.T, status corev1.ConditionStatus, text string) *autoscalingv2.HorizontalPodAutoscaler {
	t.Helper()
	var a *autoscalingv2.HorizontalPodAutoscaler
	eventually(t, fmt.Sprintf("ScalingActive of the autoscaler is %s: %s", status, text), func(ctx context.Context) (err error) {
		if a, err = c.AutoscalingV2().HorizontalPodAutoscalers("ops").Get(ctx, agent, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, condition := range a.Status.Conditions {
			if condition.Type == autoscalingv2.ScalingActive && condition.Status == status && strings.Contains(condition.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", a.Status.Conditions)
	})
	return a
}

// ignoresUtilization checks that an autoscaler on the utilization of cpu does not scale the Deployment, although the resource
// metrics of its pod exist. The webhook and lint warn.
func (c *cluster) ignoresUtilization(t *testing.T) {
	const warning = "HorizontalPodAutoscaler agent scales on the utilization of CPU of Deployment agent, whose pods run in the management pool and have no CPU request"
	if out := c.autoscale(t, "utilization.yaml"); !strings.Contains(out, "Warning: "+warning) || !strings.Contains(out, "created") {
		t.Errorf("output of kubectl = %q; want the warning of the webhook", out)
	}
	c.active(t, corev1.ConditionFalse, "missing request for cpu in container app of Pod agent-")
	c.replicas(t, 1)
	if out := c.kubectl(t, c.pluginPath(t)+"kubectl cpupool lint --cluster || true"); !strings.Contains(out, warning) {
		t.Errorf("output of lint lacks the warning:\n%s", out)
	}
	c.kubectl(t, "kubectl --namespace ops delete hpa "+agent)
}

// scalesByMetric checks that an autoscaler on the daemon's metric scales the Deployment. Each pod uses twice its request at most.
func (c *cluster) scalesByMetric(t *testing.T) {
	if out := c.autoscale(t, "metric.yaml"); strings.Contains(out, "Warning") || !strings.Contains(out, "created") {
		t.Errorf("output of kubectl = %q; want no warning", out)
	}
	a := c.active(t, corev1.ConditionTrue, "management_cpu_utilization")
	c.replicas(t, 2)
	if len(a.Status.CurrentMetrics) != 1 || a.Status.CurrentMetrics[0].Pods == nil {
		t.Fatalf("metrics of the autoscaler = %+v; want one of pods", a.Status.CurrentMetrics)
	}
	use := a.Status.CurrentMetrics[0].Pods.Current.AverageValue
	t.Logf("use relative to cpushares: %v", use)
	if got := use.MilliValue(); got < 1000 || got > 2500 {
		t.Errorf("use relative to cpushares = %v; want about 2, the limit of 200m by the request of 100m", use)
	}
}

// buildAdapter builds the adapter for this machine, and returns its path.
func buildAdapter(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "adapter")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, ".")
	build.Dir, build.Stderr = "adapter", os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		t.Fatalf("build the adapter: %v", err)
	}
	return program
}

// startAdapter starts the adapter on this machine, behind the aggregator. It reads the metrics of the first node's daemon.
func (c *cluster) startAdapter(t *testing.T, program string) {
	t.Helper()
	kubeconfig, port := filepath.Join(c.plane.dir, "super-admin.conf"), freePort(t)
	c.plane.start(t, program, "--secure-port", port, "--bind-address", "127.0.0.1", "--cert-dir", t.TempDir(), "--daemon", c.daemonMetrics(t),
		"--lister-kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig, "--authorization-kubeconfig", kubeconfig)
	text, err := os.ReadFile("testdata/autoscaling/adapter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c.plane.write(t, "adapter.yaml", strings.NewReplacer("@ADDRESS@", hostAddress, "@PORT@", port).Replace(string(text)))
	c.kubectl(t, "kubectl apply -f adapter.yaml")
	for _, name := range []string{"v1beta2.custom.metrics.k8s.io", "v1beta1.metrics.k8s.io"} {
		c.kubectl(t, "kubectl wait --for=condition=Available --timeout=5m apiservice "+name)
	}
}

// daemonMetrics returns the URL on this machine of the metrics of the first node's daemon, which listens on the node's loopback address.
func (c *cluster) daemonMetrics(t *testing.T) string {
	t.Helper()
	const address = "127.0.0.1:9466"
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: address})
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.machines[0].Dial(ctx, "tcp", address)
	}}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + "/metrics"
}
