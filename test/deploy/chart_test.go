package deploy

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

const chartDir = plain + "chart/cpupoold"

func loadChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// try renders the chart with values as helm install does, without a cluster.
func try(t *testing.T, c *chart.Chart, values string) (string, error) {
	t.Helper()
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		t.Fatal(err)
	}
	release := chartutil.ReleaseOptions{Name: "pools", Namespace: "kube-system", IsInstall: true}
	if namespace, ok := v["releaseNamespace"].(string); ok { // of these tests
		release.Namespace = namespace
		delete(v, "releaseNamespace")
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = chartutil.KubeVersion{Version: "v1.37.0"}
	if version, ok := v["kubeVersion"].(string); ok { // of these tests
		capabilities.KubeVersion = chartutil.KubeVersion{Version: version}
		delete(v, "kubeVersion")
	}
	all, err := chartutil.ToRenderValues(c, v, release, capabilities)
	if err != nil {
		return "", err
	}
	out, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if strings.HasSuffix(name, ".yaml") && !strings.Contains(name, "/tests/") {
			text.WriteString("\n---\n" + out[name])
		}
	}
	return text.String(), nil
}

func render(t *testing.T, values string) manifests {
	t.Helper()
	text, err := try(t, loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, []byte(text))
}

// TestChart checks that the plain manifests and the chart's objects are the same.
func TestChart(t *testing.T) {
	for _, c := range []struct {
		name, values string
		files        []string
		without      string // objects that the chart leaves out
	}{
		{"default", "", []string{"daemonset.yaml", "config.yaml", "rbac.yaml"}, ""},
		{"webhook", "webhook: {enabled: true}", []string{
			"daemonset.yaml", "config.yaml", "rbac.yaml",
			"webhook/webhook.yaml", "webhook/networkpolicy.yaml", "webhook/trust.yaml", "webhook/admission.yaml",
		}, ""},
		{"monitors of pods", "monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}", []string{
			"daemonset.yaml", "config.yaml", "rbac.yaml", "monitoring/podmonitor.yaml", "monitoring/prometheusrule.yaml",
		}, ""},
		{"monitors of services", "{monitoring: {serviceMonitor: {enabled: true}}, webhook: {enabled: true}}", []string{
			"daemonset.yaml", "config.yaml", "rbac.yaml", "monitoring/servicemonitor.yaml", "monitoring/webhook/servicemonitor.yaml",
			"webhook/webhook.yaml", "webhook/networkpolicy.yaml", "webhook/trust.yaml", "webhook/admission.yaml",
		}, ""},
		{"values of an older chart", "{monitoring: null, dra: null, test: null, imagePullSecrets: null, tolerations: null, resources: null, priorityClassName: null, updateStrategy: null}", []string{"daemonset.yaml", "config.yaml", "rbac.yaml"}, ""},
		{"restore", "restore: true", []string{"daemonset.yaml", "config.yaml", "uninstall/restore.yaml", "rbac.yaml"}, "DaemonSet cpupoold cpupoold"},
		{"no namespaces", "{createNamespaces: false}", []string{"daemonset.yaml", "config.yaml", "rbac.yaml"}, "Namespace  cpupoold"},
		{"namespace of the release", "{releaseNamespace: cpupoold}", []string{"daemonset.yaml", "config.yaml", "rbac.yaml"}, "Namespace  cpupoold"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := files(t, c.files...)
			if c.without != "" && want[c.without] == nil {
				t.Fatalf("manifests lack %s, which the values remove", c.without)
			}
			delete(want, c.without)
			same(t, want, render(t, c.values))
		})
	}
}

// TestChartEviction checks that the rights to evict pods come with the key that enables
// eviction.
func TestChartEviction(t *testing.T) {
	rights := files(t, "webhook/eviction/eviction.yaml")
	for eviction, want := range map[string]bool{"'off'": false, "dryRun": true, "'on'": true} {
		all := render(t, "webhook: {enabled: true, config: {depletion: {eviction: "+eviction+"}}}")
		for name := range rights {
			if (all[name] != nil) != want {
				t.Errorf("with eviction %s there is %s: %t", eviction, name, !want)
			}
		}
	}
}

// TestChartHostedPriority checks that classes and rights come with the key that enables
// the feature, and that other sizes have the classes that the webhook would print.
func TestChartHostedPriority(t *testing.T) {
	classes, rights := files(t, "webhook/hosted-priority/classes.yaml"), files(t, "webhook/hosted-priority/rights.yaml")
	if len(classes) != 14 || len(rights) != 7 {
		t.Fatalf("classes, rights = %d, %d; want 14, 7", len(classes), len(rights))
	}
	for values, want := range map[string]struct{ classes, rights bool }{
		"":                 {},
		"{enabled: false}": {},
		"{enabled: true}":  {true, true},
		"{enabled: true, sizesFrom: ClusterSizingConfiguration}": {false, true},
	} {
		all := render(t, "webhook: {enabled: true, config: {logFormat: json, hostedPriority: "+cmp.Or(values, "{}")+"}}")
		for set, is := range map[*manifests]bool{&classes: want.classes, &rights: want.rights} {
			for name, object := range *set {
				if (all[name] != nil) != is {
					t.Errorf("with %q: %s exists = %t; want %t", values, name, !is, is)
				}
				if is {
					same(t, manifests{name: object}, manifests{name: all[name]})
				}
			}
		}
	}
	const other = `webhook: {enabled: true, config: {hostedPriority: {enabled: true, sizes: [
{name: a, maxNodes: 3, controlPlane: {name: p, value: 100100000}, apiCritical: {name: r, value: 100200000}, etcd: {name: e, value: 100300000}},
{name: b, controlPlane: {name: p2, value: 999999998}, etcd: {name: e2, value: 1000000000}}]}}`
	all := render(t, other+"}")
	text := all["ConfigMap cpupool-webhook cpupool-webhook"].(*corev1.ConfigMap).Data["config.yaml"]
	var config struct{ HostedPriority hostedpriority.Config }
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	config.HostedPriority.SizesFrom = hostedpriority.FromConfig
	config.HostedPriority.Check(func(key, value, reason string) { t.Errorf("%s: %s: %s", key, value, reason) })
	want := map[string]int32{}
	for _, c := range of[*schedulingv1.PriorityClass](parse(t, []byte(config.HostedPriority.Manifests()))) {
		want[c.Name] = c.Value
	}
	got := map[string]int32{}
	for _, c := range of[*schedulingv1.PriorityClass](all) {
		got[c.Name] = c.Value
	}
	if len(want) != 5 || !maps.Equal(want, got) {
		t.Errorf("classes %v; want %v", got, want)
	}
	if n := len(of[*schedulingv1.PriorityClass](render(t, other+", priorityClasses: false}"))); n > 0 {
		t.Errorf("%d classes are created; want none", n)
	}
}

// TestChartTopology checks that the right to write NodeResourceTopologies exists exactly
// where it is used.
func TestChartTopology(t *testing.T) {
	right := files(t, "topology/rbac.yaml")
	if len(right) != 4 {
		t.Fatalf("objects in topology/rbac.yaml = %d; want 4", len(right))
	}
	for values, want := range map[string]bool{
		"":                                 false,
		"config: {node: {topology: true}}": true,
		"config: {node: {topology: true, enabled: 'false'}}":                                false,
		"profiles: [{name: a, nodeSelector: {kind: a}, config: {node: {topology: true}}}]":  true,
		"profiles: [{name: a, nodeSelector: {kind: a}, config: {node: {topology: false}}}]": false,
	} {
		got := render(t, values)
		for name, object := range right {
			if _, is := got[name]; is != want {
				t.Errorf("values %q: %s there: %t; want %t", values, name, is, want)
			}
			if want {
				same(t, manifests{name: object}, manifests{name: got[name]})
			}
		}
	}
}

// TestChartPackage checks that a package contains the plain manifests, which a checkout has
// next to it.
func TestChartPackage(t *testing.T) {
	file, err := chartutil.Save(loadChart(t), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	packed, err := loader.LoadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, values := range []string{"", "webhook: {enabled: true}", "restore: true", withClaims, "{monitoring: {podMonitor: {enabled: true}, prometheusRule: {enabled: true}}, webhook: {enabled: true}}"} {
		want, err := try(t, loadChart(t), values)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := try(t, packed, values); err != nil || got != want {
			t.Errorf("values %q: the package renders something else: %v", values, err)
		}
	}
}

func TestChartLint(t *testing.T) {
	for _, values := range []string{"", "webhook: {enabled: true}"} {
		v := map[string]any{}
		if err := yaml.Unmarshal([]byte(values), &v); err != nil {
			t.Fatal(err)
		}
		for _, m := range lint.All(chartDir, v, "kube-system", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("values %q: %s", values, m)
			}
		}
	}
}

const twoProfiles = `
image: {repository: registry.example.com/cpupoold, tag: "2", pullSecrets: [registry]}
resources: {limits: {memory: 256Mi}}
profiles:
- name: worker
  nodeSelector: {node.example.com/kind: worker}
  config:
    partitions: [{type: management, cpus: 0-1, namespaces: [kube-system, cpupoold]}]
    guaranteed: {from: shared, floor: 2}
    node: {events: false}
- name: edge
  nodeSelector: {node.example.com/kind: edge, node.example.com/site: north}
  config:
    apiVersion: config.cpupoold.io/v1alpha1
    partitions: [{type: management, cpus: "0", namespaces: [kube-system, cpupoold]}]
    node: {events: false, startupTaint: none}
`

func TestChartProfiles(t *testing.T) {
	for _, c := range []struct{ values, prefix string }{{"", "cpupoold-"}, {"\nrestore: true", "cpupoold-restore-"}} {
		all := render(t, twoProfiles+c.values)
		sets := of[*appsv1.DaemonSet](all)
		if len(sets) != 2 || len(of[*corev1.ConfigMap](all)) != 2 {
			t.Fatalf("%d DaemonSets and %d ConfigMaps; want 2 of each", len(sets), len(of[*corev1.ConfigMap](all)))
		}
		disjoint(t, sets)
		configs := configurations(t, all)
		worker, edge := configs[c.prefix+"worker"], configs[c.prefix+"edge"]
		if worker == nil || edge == nil || worker.Pools.Partitions[0].CPUs.String() != "0-1" || edge.Pools.Partitions[0].CPUs.String() != "0" {
			t.Errorf("configurations %+v; want that each DaemonSet has its own", configs)
		}
		for _, s := range sets {
			spec := s.Spec.Template.Spec
			for _, container := range slices.Concat(spec.InitContainers, spec.Containers) {
				if container.Image != "registry.example.com/cpupoold:2" {
					t.Errorf("%s: image = %s; want registry.example.com/cpupoold:2", s.Name, container.Image)
				}
			}
			if len(spec.ImagePullSecrets) != 1 || spec.ImagePullSecrets[0].Name != "registry" {
				t.Errorf("%s: pull secrets = %v; want registry", s.Name, spec.ImagePullSecrets)
			}
			if spec.Containers[0].Resources.Limits.Memory().String() != "256Mi" {
				t.Errorf("%s: limits = %v; want 256Mi of memory", s.Name, spec.Containers[0].Resources.Limits)
			}
		}
	}
}

// TestChartRights checks that a role is bound if a configuration needs it.
func TestChartRights(t *testing.T) {
	for values, want := range map[string][]string{
		"":                                     {"events", "node-status", "taints"},
		"config: {node: {events: false}}":      {"node-status", "taints"},
		"config: {node: {startupTaint: none}}": {"events", "node-status"},
		"config: {node: {startupTaint: none}, depletion: {action: warn}}": {"events", "node-status", "taints"}, // to remove the objects of an earlier configuration
		"config: {node: {resources: false, condition: false}}":            {"events", "node-status", "taints"}, // to withdraw them
		"config: {node: {enabled: false}}":                                {},
		"config: {namespacePermission: annotation}":                       {"events", "namespaces", "node-status", "taints"},
		"config: {namespacePermission: list}":                             {"events", "node-status", "taints"},
		twoProfiles:                                                       {"node-status", "taints"},
		"{config: {node: {events: false}}, webhook: {enabled: true}}":     {"cpupool-webhook", "node-status", "taints"},
	} {
		got := []string{}
		for _, b := range of[*rbacv1.ClusterRoleBinding](render(t, values)) {
			got = append(got, strings.TrimPrefix(b.Name, "cpupoold-"))
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("values %q bind %v; want %v", values, got, want)
		}
	}
}

func TestChartStartupTaint(t *testing.T) {
	text, err := try(t, loadChart(t), "config: {node: {startupTaint: example.com/new}}")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "cpupoold.io/starting") || !strings.Contains(text, "t.key in ['example.com/new',") {
		t.Error("taint of the policy differs from the configuration; want the same")
	}
}

// TestChartDomain checks that annotations of another domain follow the same rules.
func TestChartDomain(t *testing.T) {
	const values = `
config: {annotationDomain: cpu.example.com}
webhook: {enabled: true, config: {annotationDomain: cpu.example.com}}
`
	text, err := try(t, loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	parse(t, []byte(text))
	for _, old := range []string{"workload.openshift.io", "io.openshift.workload"} {
		if strings.Contains(text, old) {
			t.Errorf("%s is left; want it removed", old)
		}
	}
	for _, name := range []string{"target.cpu.example.com/management", "startsWith('target.cpu.example.com/')", "startsWith('com.example.cpu.')"} {
		if !strings.Contains(text, name) {
			t.Errorf("objects lack %s", name)
		}
	}
}

func TestChartWebhook(t *testing.T) {
	all := render(t, `webhook:
  enabled: true
  replicas: 1
  config: {types: {management: "on"}, certificates: files}
  injectCAFrom: cpupool-webhook/reviews
  systemNamespaces: [kube-flannel]
  networkPolicy: {metricsNamespaces: [], apiServerPorts: [16443]}
`)
	if n := len(of[*policyv1.PodDisruptionBudget](all)) + len(of[*corev1.Secret](all)); n > 0 {
		t.Error("objects of one replica include a disruption budget or an empty Secret; want none")
	}
	for _, r := range of[*rbacv1.Role](all) {
		for _, rule := range r.Rules {
			if slices.Contains(rule.Resources, "secrets") {
				t.Error("with external certificates it may read Secrets; want no such right")
			}
		}
	}
	policy := of[*networkingv1.NetworkPolicy](all)[0].Spec
	if len(policy.Ingress) != 1 || policy.Ingress[0].Ports[0].Port.String() != "reviews" || policy.Egress[0].Ports[0].Port.IntValue() != 16443 {
		t.Errorf("network policy = %+v; want the port reviews and 16443", policy)
	}
	text := all["ConfigMap cpupool-webhook cpupool-webhook"].(*corev1.ConfigMap).Data["config.yaml"]
	for _, line := range []string{"apiVersion: config.cpupoold.io/v1alpha1", "kind: CPUPoolWebhookConfiguration", "certificates: files", `management: "on"`} {
		if !strings.Contains(text, line) {
			t.Errorf("configuration %q lacks %s", text, line)
		}
	}
	w := of[*admissionregistrationv1.MutatingWebhookConfiguration](all)[0]
	if w.Annotations["cert-manager.io/inject-ca-from"] != "cpupool-webhook/reviews" {
		t.Errorf("annotations = %v; want the certificate cpupool-webhook/reviews", w.Annotations)
	}
	for _, w := range w.Webhooks {
		if e := w.NamespaceSelector.MatchExpressions[0]; !slices.Contains(e.Values, "kube-flannel") {
			t.Errorf("webhook %s: namespaces %s %v lack kube-flannel", w.Name, e.Operator, e.Values)
		}
	}
	resize := of[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks[0]
	if slices.Contains(resize.NamespaceSelector.MatchExpressions[0].Values, "kube-flannel") {
		t.Error("resize webhook skips kube-flannel; want it included")
	}
}
