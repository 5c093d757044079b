package deploy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// settings are values that replace settings of the manifests, indented as below a key.
const settings = `
  nodeSelector: {disk: ssd}
  tolerations: []
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: gpu, operator: Exists}]}]}}}
  priorityClassName: ""
  podAnnotations: {example.com/a: b}
  podLabels: {team: platform}
  extraArgs: [--log-level=debug]
  extraEnv: [{name: GOMEMLIMIT, value: 50MiB}]
  resources: {requests: {cpu: 50m}, limits: {memory: 64Mi}}
`

// changed returns a pod template with these settings.
func changed(template *corev1.PodTemplateSpec) *corev1.PodTemplateSpec {
	want := template.DeepCopy()
	want.Annotations["example.com/a"] = "b"
	want.Labels["team"] = "platform"
	s := &want.Spec
	if s.NodeSelector == nil {
		s.NodeSelector = map[string]string{}
	}
	s.NodeSelector["disk"] = "ssd"
	s.Tolerations, s.PriorityClassName = nil, ""
	exists := []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}
	s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: exists}},
	}}}
	c := &s.Containers[0]
	c.Args = append(c.Args, "--log-level=debug")
	c.Env = append(c.Env, corev1.EnvVar{Name: "GOMEMLIMIT", Value: "50MiB"})
	return want
}

// resourcesAside moves the resources of the only container out of a template, as text.
func resourcesAside(template *corev1.PodTemplateSpec) map[string]string {
	r := &template.Spec.Containers[0].Resources
	cpu, memory := r.Requests.Cpu().String(), r.Requests.Memory().String()
	text := map[string]string{"cpu": cpu, "memory": memory, "limit": r.Limits.Memory().String()}
	*r = corev1.ResourceRequirements{}
	return text
}

// TestChartSettings checks that pods have the settings of the values, and nothing else
// changes. Values for resources are merged with the chart's values.
func TestChartSettings(t *testing.T) {
	plain := files(t, "daemonset.yaml", "config.yaml", "webhook/webhook.yaml")
	all := render(t, "webhook:\n  enabled: true"+settings)
	daemon, webhook := &daemonSet(t, plain, "cpupoold").Spec.Template, &of[*appsv1.Deployment](plain)[0].Spec.Template
	check := func(name string, want, got *corev1.PodTemplateSpec, resources map[string]string) {
		t.Helper()
		want = want.DeepCopy()
		resourcesAside(want)
		if d := cmp.Diff(resources, resourcesAside(got)); d != "" {
			t.Errorf("%s: resources (-want +got):\n%s", name, d)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: template (-want +got):\n%s", name, d)
		}
	}
	set := map[string]string{"cpu": "50m", "memory": "64Mi", "limit": "64Mi"}
	check("webhook", changed(webhook), &of[*appsv1.Deployment](all)[0].Spec.Template, set)
	check("daemon with the webhook", daemon, &daemonSet(t, all, "cpupoold").Spec.Template, map[string]string{"cpu": "20m", "memory": "32Mi", "limit": "128Mi"})

	set["memory"] = "32Mi"
	all = render(t, settings[1:])
	check("daemon", changed(daemon), &daemonSet(t, all, "cpupoold").Spec.Template, set)

	// The profile a has its own settings. The profile b has the settings of all.
	const profiles = "\n  profiles:\n  - {name: b, nodeSelector: {kind: b}, config: {logLevel: info}}\n  - name: a\n    config: {logLevel: info}"
	all = render(t, profiles[1:]+"\n    nodeSelector: {kind: a}\n    tolerations: [{key: a, operator: Exists}]\n    extraArgs: []\n    priorityClassName: c\n"+settings[1:])
	for _, name := range []string{"a", "b"} {
		want := changed(daemon)
		want.Labels["cpupoold.io/profile"], want.Spec.NodeSelector["kind"] = name, name
		want.Spec.Volumes[0].ConfigMap.Name = "cpupoold-" + name
		if name == "a" {
			want.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
			want.Spec.Containers[0].Args, want.Spec.PriorityClassName = daemon.Spec.Containers[0].Args, "c"
		}
		check("profile "+name, want, &daemonSet(t, all, "cpupoold-"+name).Spec.Template, set)
	}
	if restore := daemonSet(t, render(t, "  restore: true\n"+settings[1:]), "cpupoold-restore").Spec.Template.Spec; len(restore.Containers[0].Args) != 3 ||
		len(restore.InitContainers[0].Env) != 2 || restore.NodeSelector["disk"] != "ssd" {
		t.Errorf("the pod that restores a node is %+v; want the settings without extraArgs", restore)
	}
}

// TestChartStrategy checks that the parameters of rolling updates go with their type.
func TestChartStrategy(t *testing.T) {
	all := render(t, "{updateStrategy: {type: OnDelete}, webhook: {enabled: true, updateStrategy: {type: Recreate}}}")
	if s := daemonSet(t, all, "cpupoold").Spec.UpdateStrategy; s.Type != appsv1.OnDeleteDaemonSetStrategyType || s.RollingUpdate != nil {
		t.Errorf("strategy of the DaemonSet = %+v; want OnDelete", s)
	}
	if s := of[*appsv1.Deployment](all)[0].Spec.Strategy; s.Type != appsv1.RecreateDeploymentStrategyType || s.RollingUpdate != nil {
		t.Errorf("strategy of the Deployment = %+v; want Recreate", s)
	}
	all = render(t, "updateStrategy: {rollingUpdate: {maxUnavailable: 10%}}")
	if s := daemonSet(t, all, "cpupoold").Spec.UpdateStrategy.RollingUpdate; s.MaxUnavailable.String() != "10%" || s.MaxSurge.IntValue() != 0 {
		t.Errorf("strategy of the DaemonSet = %+v; want 10%% unavailable, no surge", s)
	}
}

// TestChartImage checks the reference of the image and both lists of pull secrets.
func TestChartImage(t *testing.T) {
	digest, old := "sha256:"+strings.Repeat("0123456789abcdef", 4), "sha256:"+strings.Repeat("0", 64)
	for values, want := range map[string]string{
		"": "localhost/cpupoold/cpupoold:" + loadChart(t).AppVersion(),
		"image: {repository: registry.example.com/a, tag: '2'}":   "registry.example.com/a:2",
		"image: {tag: '2', digest: '" + digest + "'}":             "localhost/cpupoold/cpupoold:2@" + digest,
		"image: {tag: '2@" + old + "', digest: '" + digest + "'}": "localhost/cpupoold/cpupoold:2@" + digest,
		"image: {tag: '2@" + old + "'}":                           "localhost/cpupoold/cpupoold:2@" + old,
	} {
		if got := daemonSet(t, render(t, values), "cpupoold").Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("values %q: image %s; want %s", values, got, want)
		}
	}
	all := render(t, "{image: {pullSecrets: [a, b]}, imagePullSecrets: [{name: b}, {name: c}], webhook: {enabled: true}}")
	want := []corev1.LocalObjectReference{{Name: "b"}, {Name: "c"}, {Name: "a"}}
	for _, spec := range []corev1.PodSpec{daemonSet(t, all, "cpupoold").Spec.Template.Spec, of[*appsv1.Deployment](all)[0].Spec.Template.Spec} {
		if d := cmp.Diff(want, spec.ImagePullSecrets); d != "" {
			t.Errorf("pull secrets (-want +got):\n%s", d)
		}
	}
}

// TestChartListenAddress checks that the probes use the address of the daemon.
func TestChartListenAddress(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:9466":    "127.0.0.1:9466",
		"0.0.0.0:9500":      "127.0.0.1:9500",
		"192.0.2.7:9466":    "192.0.2.7:9466",
		"'[::]:9500'":       "127.0.0.1:9500",
		"'[2001:db8::1]:1'": "2001:db8::1:1",
	} {
		c := daemonSet(t, render(t, "config: {listenAddress: "+address+"}"), "cpupoold").Spec.Template.Spec.Containers[0]
		for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if got := p.HTTPGet.Host + ":" + p.HTTPGet.Port.String(); got != want {
				t.Errorf("listenAddress %s: probe of %s; want %s", address, got, want)
			}
		}
	}
	render(t, "{restore: true, config: {listenAddress: '0.0.0.0:9500'}}") // has no probes
}
