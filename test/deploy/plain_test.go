package deploy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// TestRestore: the pod that restores a node has what the daemon's has, and nothing else;
// it is no pod of the daemon's.
func TestRestore(t *testing.T) {
	all := files(t, "daemonset.yaml", "uninstall/restore.yaml")
	configurations(t, all)
	daemon, restore := daemonSet(t, all, "cpupoold"), daemonSet(t, all, "cpupoold-restore")
	if daemon.Spec.Selector.MatchLabels["app.kubernetes.io/name"] == restore.Spec.Selector.MatchLabels["app.kubernetes.io/name"] {
		t.Error("both select the same pods")
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
