package deploy

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// namespaces are the namespaces of the pods with metrics, by the names of pods and monitors.
var namespaces = map[string]string{"cpupoold": "cpupoold", "cpupool-webhook": "cpupool-webhook", "cpupool-dra": "cpupoold"}

// TestChartMonitoring checks that labels and namespaces come from the values, and that the
// monitors select the same pods as before.
func TestChartMonitoring(t *testing.T) {
	const where = "{enabled: true, labels: {release: prometheus}, namespace: observed}"
	rules := of[*monitoringv1.PrometheusRule](files(t, "monitoring/prometheusrule.yaml"))[0]
	for _, key := range []string{"podMonitor", "serviceMonitor"} {
		all := render(t, withClaims+"webhook: {enabled: true}\nmonitoring: {prometheusRule: "+where+", "+key+": "+where+"}")
		right := func(m metav1.ObjectMeta) {
			t.Helper()
			want := map[string]string{"release": "prometheus", "app.kubernetes.io/name": m.Name}
			if d := cmp.Diff(want, m.Labels); d != "" || m.Namespace != "observed" {
				t.Errorf("%s %s: namespace %q, labels (-want +got):\n%s", key, m.Name, m.Namespace, d)
			}
		}
		selected := 0
		chosen := func(m metav1.ObjectMeta, s monitoringv1.NamespaceSelector) {
			t.Helper()
			if right(m); s.Any || !cmp.Equal(s.MatchNames, []string{namespaces[m.Name]}) {
				t.Errorf("%s %s looks into namespaces %+v; want %s", key, m.Name, s, namespaces[m.Name])
			}
			selected++
		}
		for _, m := range of[*monitoringv1.PodMonitor](all) {
			chosen(m.ObjectMeta, m.Spec.NamespaceSelector)
		}
		for _, m := range of[*monitoringv1.ServiceMonitor](all) {
			chosen(m.ObjectMeta, m.Spec.NamespaceSelector)
		}
		if selected != len(namespaces) {
			t.Errorf("%s: %d monitors; want one for each of %v", key, selected, namespaces)
		}
		got := of[*monitoringv1.PrometheusRule](all)
		if len(got) != 1 {
			t.Fatalf("PrometheusRules = %d; want 1", len(got))
		}
		right(got[0].ObjectMeta)
		if d := cmp.Diff(rules.Spec, got[0].Spec); d != "" {
			t.Errorf("rules (-plain manifests +rendered):\n%s", d)
		}
	}
}

// TestMonitors checks that the monitors select the pods of the manifests, only their
// ports, and the port of the proxy in docs/how-to/monitor.md.
func TestMonitors(t *testing.T) {
	all := files(t, "daemonset.yaml", "webhook/webhook.yaml", "monitoring/podmonitor.yaml", "monitoring/servicemonitor.yaml",
		"monitoring/webhook/podmonitor.yaml", "monitoring/webhook/servicemonitor.yaml",
		"dra/daemonset.yaml", "monitoring/dra/podmonitor.yaml", "monitoring/dra/servicemonitor.yaml")
	templates := map[string]corev1.PodTemplateSpec{
		"cpupoold":        daemonSet(t, all, "cpupoold").Spec.Template,
		"cpupool-webhook": of[*appsv1.Deployment](all)[0].Spec.Template,
		"cpupool-dra":     daemonSet(t, all, "cpupool-dra").Spec.Template,
	}
	selects := func(name string, selector map[string]string) {
		t.Helper()
		if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(templates[name].Labels)) {
			t.Errorf("%s: %v selects no pod with %v", name, selector, templates[name].Labels)
		}
	}
	has := func(name, port string) {
		t.Helper()
		for _, p := range templates[name].Spec.Containers[0].Ports {
			if p.Name == port {
				return
			}
		}
		if name != "cpupoold" || port != "metrics" {
			t.Errorf("%s has no port %q", name, port)
		}
	}
	n := 0
	for _, m := range of[*monitoringv1.PodMonitor](all) {
		n++
		selects(m.Name, m.Spec.Selector.MatchLabels)
		for _, e := range m.Spec.PodMetricsEndpoints {
			has(m.Name, *e.Port)
		}
	}
	for _, m := range of[*monitoringv1.ServiceMonitor](all) {
		n++
		service, is := all["Service "+m.Namespace+" "+m.Name+"-metrics"].(*corev1.Service)
		if !is {
			t.Fatalf("ServiceMonitor %s has no Service", m.Name)
		}
		if !labels.SelectorFromSet(m.Spec.Selector.MatchLabels).Matches(labels.Set(service.Labels)) {
			t.Errorf("ServiceMonitor %s selects no Service with %v", m.Name, service.Labels)
		}
		selects(m.Name, service.Spec.Selector)
		for _, e := range m.Spec.Endpoints {
			if e.Port != service.Spec.Ports[0].Name {
				t.Errorf("ServiceMonitor %s: the Service has no port %q", m.Name, e.Port)
			}
		}
		has(m.Name, service.Spec.Ports[0].TargetPort.String())
	}
	if want := 2 * len(namespaces); n != want {
		t.Errorf("%d monitors; want %d", n, want)
	}
}
