package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// build returns the output of kubectl kustomize.
func build(t *testing.T, dir string) manifests {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	text, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func TestKustomize(t *testing.T) {
	for dir, names := range map[string][]string{
		"":          {"daemonset.yaml", "config.yaml", "rbac.yaml"},
		"webhook":   {"webhook/webhook.yaml", "webhook/networkpolicy.yaml", "webhook/trust.yaml", "webhook/admission.yaml"},
		"uninstall": {"uninstall/restore.yaml"},

		"dra":                     draFiles,
		"webhook/eviction":        {"webhook/eviction/eviction.yaml"},
		"webhook/hosted-priority": {"webhook/hosted-priority/classes.yaml", "webhook/hosted-priority/rights.yaml"},
		"monitoring":              {"monitoring/podmonitor.yaml", "monitoring/prometheusrule.yaml"},
		"monitoring/webhook":      {"monitoring/webhook/podmonitor.yaml"},
		"monitoring/dra":          {"monitoring/dra/podmonitor.yaml"},
	} {
		t.Run("deploy/"+dir, func(t *testing.T) { same(t, files(t, names...), build(t, plain+dir)) })
	}
}

const examples = "../../examples/kustomize/"

// TestKustomizeCluster checks that the overlay changes image, configuration and
// namespaces, and nothing else.
func TestKustomizeCluster(t *testing.T) {
	got := build(t, examples+"cluster")
	configurations(t, got)
	want := files(t, "daemonset.yaml", "config.yaml", "rbac.yaml", "webhook/webhook.yaml", "webhook/networkpolicy.yaml", "webhook/trust.yaml", "webhook/admission.yaml")
	const image = "registry.example.com/cpupoold:1"
	daemonSet(t, want, "cpupoold").Spec.Template.Spec.Containers[0].Image = image
	of[*appsv1.Deployment](want)[0].Spec.Template.Spec.Containers[0].Image = image
	const key = "ConfigMap cpupoold cpupoold"
	wanted := want[key].(*corev1.ConfigMap)
	if wanted.Data["config.yaml"] == got[key].(*corev1.ConfigMap).Data["config.yaml"] {
		t.Error("the configuration equals the base; want a change")
	}
	wanted.Data = got[key].(*corev1.ConfigMap).Data
	for _, w := range of[*admissionregistrationv1.MutatingWebhookConfiguration](want)[0].Webhooks {
		e := &w.NamespaceSelector.MatchExpressions[0]
		e.Values = append(e.Values, "kube-flannel")
	}
	same(t, want, got)
}

// TestKustomizeProfiles checks that each kind of node has one DaemonSet with its
// configuration, and that all other objects exist once.
func TestKustomizeProfiles(t *testing.T) {
	got := build(t, examples+"profiles")
	sets := of[*appsv1.DaemonSet](got)
	if len(sets) != 2 {
		t.Fatalf("%d DaemonSets; want 2", len(sets))
	}
	disjoint(t, sets)
	configs := configurations(t, got)
	for _, set := range sets {
		kind := strings.TrimPrefix(set.Name, "cpupoold-")
		if set.Spec.Template.Spec.NodeSelector["node.example.com/kind"] != kind || configs[set.Name] == nil {
			t.Errorf("nodes of DaemonSet %s = %v; want its kind", set.Name, set.Spec.Template.Spec.NodeSelector)
		}
		if got["ServiceAccount cpupoold "+set.Spec.Template.Spec.ServiceAccountName] == nil {
			t.Errorf("DaemonSet %s: service account %s is missing", set.Name, set.Spec.Template.Spec.ServiceAccountName)
		}
		delete(got, "DaemonSet cpupoold "+set.Name)
		delete(got, "ConfigMap cpupoold "+set.Name)
	}
	want := files(t, "daemonset.yaml", "config.yaml", "rbac.yaml")
	delete(want, "DaemonSet cpupoold cpupoold")
	delete(want, "ConfigMap cpupoold cpupoold")
	same(t, want, got)
}

// TestKustomizeProfilesUninstall checks that each node is restored with the
// configuration of its daemon.
func TestKustomizeProfilesUninstall(t *testing.T) {
	daemons, all := build(t, examples+"profiles"), build(t, examples+"profiles-uninstall")
	sets := of[*appsv1.DaemonSet](all)
	if len(sets) != 2 || len(all) != 2 {
		t.Fatalf("%d objects, of them %d DaemonSets; want 2 and nothing else", len(all), len(sets))
	}
	disjoint(t, sets)
	for _, set := range sets {
		daemon := daemonSet(t, daemons, strings.Replace(set.Name, "-restore", "", 1))
		if d := cmp.Diff(daemon.Spec.Template.Spec.Volumes, set.Spec.Template.Spec.Volumes); d != "" {
			t.Errorf("%s: volumes (-daemon +restore):\n%s", set.Name, d)
		}
		if d := cmp.Diff(daemon.Spec.Template.Spec.NodeSelector, set.Spec.Template.Spec.NodeSelector); d != "" {
			t.Errorf("%s: nodes (-daemon +restore):\n%s", set.Name, d)
		}
	}
}
