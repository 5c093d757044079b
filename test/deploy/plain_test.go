package deploy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// TestRestore checks that the pod that restores a node has the rights and mounts of the
// daemon's pod, and nothing else. Its labels differ from the daemon's.
func TestRestore(t *testing.T) {
	all := files(t, "daemonset.yaml", "config.yaml", "uninstall/restore.yaml")
	configurations(t, all)
	daemon, restore := daemonSet(t, all, "cpupoold"), daemonSet(t, all, "cpupoold-restore")
	if daemon.Spec.Selector.MatchLabels["app.kubernetes.io/name"] == restore.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Error("both select the same pods; want distinct ones")
	}
	if d := cmp.Diff(daemon.Spec.Template.Annotations, restore.Spec.Template.Annotations); d != "" {
		t.Errorf("annotations (-daemon +restore):\n%s", d)
	}
	want, got := daemon.Spec.Template.Spec, restore.Spec.Template.Spec
	containers := slices.Concat(got.InitContainers, got.Containers)
	args := [][]string{}
	for _, c := range containers {
		args = append(args, c.Args)
		d := *want.Containers[0].DeepCopy()
		d.Name, d.Args, d.StartupProbe, d.LivenessProbe, d.ReadinessProbe = c.Name, c.Args, nil, nil, nil
		if d := cmp.Diff(d, c); d != "" {
			t.Errorf("container %s (-daemon +restore):\n%s", c.Name, d)
		}
	}
	const file = "--config=/etc/cpupoold/config.yaml"
	if d := cmp.Diff([][]string{{"restore", file}, {"restore", file, "--wait"}}, args); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	for _, spec := range []*corev1.PodSpec{&want, &got} {
		spec.InitContainers, spec.Containers = nil, nil
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pod (-daemon +restore):\n%s", d)
	}
}

// TestReadOnlyEtc checks that the pods on a node mount nothing of the host's /etc: it is read-only on
// Talos, and the kubelet cannot make a directory there.
func TestReadOnlyEtc(t *testing.T) {
	all := files(t, "daemonset.yaml", "uninstall/restore.yaml")
	for _, name := range []string{"cpupoold", "cpupoold-restore"} {
		spec := daemonSet(t, all, name).Spec.Template.Spec
		for _, v := range spec.Volumes {
			if v.HostPath != nil && strings.HasPrefix(v.HostPath.Path+"/", "/etc/") {
				t.Errorf("%s mounts %s of the host; want no directory of /etc", name, v.HostPath.Path)
			}
		}
		if !spec.HostPID {
			t.Errorf("%s is not in the host's PID namespace; want it there, to read files through /proc/PID/root", name)
		}
	}
}

// TestPods checks that their namespaces let the pods run, and that the pods have only
// the rights that they need.
func TestPods(t *testing.T) {
	all := files(t, "daemonset.yaml", "webhook/webhook.yaml")
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		namespace string
		template  corev1.PodTemplateSpec
		level     api.Level
	}{
		{"cpupool-webhook", of[*appsv1.Deployment](all)[0].Spec.Template, api.LevelRestricted},
		{"cpupoold", daemonSet(t, all, "cpupoold").Spec.Template, api.LevelPrivileged},
	} {
		enforced := all["Namespace  "+c.namespace].(*corev1.Namespace).Labels[api.EnforceLevelLabel]
		if enforced != string(c.level) {
			t.Errorf("namespace %s enforces %q; want %q", c.namespace, enforced, c.level)
		}
		level := api.LevelVersion{Level: c.level, Version: api.LatestVersion()}
		results := evaluator.EvaluatePod(level, &c.template.ObjectMeta, &c.template.Spec)
		if r := policy.AggregateCheckResults(results); !r.Allowed {
			t.Errorf("namespace %s refuses its pod: %s", c.namespace, r.ForbiddenDetail())
		}
		for _, container := range c.template.Spec.Containers {
			if s := container.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
				t.Errorf("root file system of container %s is writable; want it read-only", container.Name)
			}
			if container.Resources.Limits.Memory().IsZero() {
				t.Errorf("container %s has no limit for memory", container.Name)
			}
		}
	}
}

// TestNetworkPolicy checks that the policy selects the webhook's pods, and allows all
// ports that others use.
func TestNetworkPolicy(t *testing.T) {
	all := files(t, "webhook/webhook.yaml", "webhook/networkpolicy.yaml")
	template := of[*appsv1.Deployment](all)[0].Spec.Template
	p := of[*networkingv1.NetworkPolicy](all)[0]
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	if selector.Empty() || !selector.Matches(labels.Set(template.Labels)) {
		t.Errorf("policy selects %s; pods have %v", selector, template.Labels)
	}
	open := map[string]bool{"probes": true} // for the node's own kubelet, always
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.String()] = true
		}
	}
	for _, port := range template.Spec.Containers[0].Ports {
		if !open[port.Name] {
			t.Errorf("port %s is closed; want it open", port.Name)
		}
		delete(open, port.Name)
	}
	if len(open) > 0 {
		t.Errorf("the policy has ports that the pods lack: %v", open)
	}
}
