package deploy

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	helmrelease "helm.sh/helm/v3/pkg/release"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
)

// draFiles are the manifests of the driver for ResourceClaims.
var draFiles = []string{"dra/daemonset.yaml", "dra/rbac.yaml", "dra/policy.yaml", "dra/deviceclass.yaml", "dra/networkpolicy.yaml"}

// withClaims are values with a list for claims, and the driver.
const withClaims = `
config:
  partitions: [{type: management, cpus: 0-1, namespaces: [kube-system, cpupoold]}]
  guaranteed: {cpus: 4-7, claims: {cpus: 8-15}}
dra: {enabled: true}
`

// TestChartDRA checks that the chart makes the objects of deploy/dra.
func TestChartDRA(t *testing.T) {
	want := files(t, slices.Concat([]string{"daemonset.yaml", "config.yaml", "rbac.yaml"}, draFiles)...)
	got := render(t, withClaims)
	want["ConfigMap cpupoold cpupoold"] = got["ConfigMap cpupoold cpupoold"]
	same(t, want, got)

	delete(want, "DeviceClass  "+dra.Class)
	delete(want, "NetworkPolicy cpupoold cpupool-dra")
	got = render(t, strings.Replace(withClaims, "enabled: true", "enabled: true, deviceClass: false, networkPolicy: {enabled: false}", 1))
	same(t, want, got)
}

// TestChartDRAProfiles checks that a driver runs where the configuration has claims, with the
// directories of its daemon.
func TestChartDRAProfiles(t *testing.T) {
	all := render(t, `
dra: {enabled: true, accounting: reserved, numaAttributes: [dra.net/numaNode], nodeSelector: {pool: rt}, networkPolicy: {metricsNamespaces: [], apiServerPorts: [16443]}}
profiles:
- name: worker
  nodeSelector: {kind: worker}
  config: {guaranteed: {claims: {cpus: 8-15}}, kubeletStateDir: /var/lib/k0s/kubelet, runDir: /run/pools}
- {name: plain, nodeSelector: {kind: plain}, config: {guaranteed: {cpus: 4-7}}}
- {name: edge, nodeSelector: {kind: edge}, config: {guaranteed: {claims: {cpus: 2-3}}}}
`)
	var names []string
	for _, s := range of[*appsv1.DaemonSet](all) {
		if strings.HasPrefix(s.Name, "cpupool-dra") {
			names = append(names, s.Name)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"cpupool-dra-edge", "cpupool-dra-worker"}) {
		t.Fatalf("drivers are %v; want the drivers of edge and worker", names)
	}
	disjoint(t, []*appsv1.DaemonSet{daemonSet(t, all, names[0]), daemonSet(t, all, names[1])})
	if p := of[*networkingv1.NetworkPolicy](all)[0].Spec; len(p.Ingress) != 0 || p.Egress[0].Ports[0].Port.IntValue() != 16443 || len(p.PolicyTypes) != 2 {
		t.Errorf("network policy = %+v; want no ingress, and egress to port 16443", p)
	}
	spec := daemonSet(t, all, "cpupool-dra-worker").Spec.Template.Spec
	if d := cmp.Diff(map[string]string{"kubernetes.io/os": "linux", "kind": "worker", "pool": "rt"}, spec.NodeSelector); d != "" {
		t.Errorf("nodes of the driver (-want +got):\n%s", d)
	}
	args := []string{"--listen=:9468", "--accounting=reserved", "--numa-attribute=dra.net/numaNode", "--kubelet-dir=/var/lib/k0s/kubelet", "--run-dir=/run/pools"}
	if d := cmp.Diff(args, spec.Containers[0].Args); d != "" {
		t.Errorf("arguments (-want +got):\n%s", d)
	}
	want := []string{"/run/pools", "/var/lib/k0s/kubelet/plugins/cpu.cpupoold.io", "/var/lib/k0s/kubelet/plugins_registry", "/var/run/cdi"}
	if got := mounted(t, &spec); !slices.Equal(got, want) {
		t.Errorf("mounts are %v; want %v", got, want)
	}
	if got := mounted(t, &daemonSet(t, all, "cpupool-dra-edge").Spec.Template.Spec); got[0] != "/run/cpupoold" {
		t.Errorf("mounts of the other driver are %v; want the defaults", got)
	}
}

// TestKustomizeClaims checks that the overlay changes image, nodes and arguments, and nothing else.
func TestKustomizeClaims(t *testing.T) {
	want := files(t, draFiles...)
	spec := &daemonSet(t, want, "cpupool-dra").Spec.Template.Spec
	spec.NodeSelector["node.example.com/claims"] = "true"
	spec.Containers[0].Image = "registry.example.com/cpupoold:1"
	spec.Containers[0].Args = append(spec.Containers[0].Args, "--numa-attribute=dra.net/numaNode")
	same(t, want, build(t, examples+"claims"))
}

// TestReleaseDRA checks the order of removal: first the class, then the driver, then the list.
func TestReleaseDRA(t *testing.T) {
	c := newCluster(t)
	objects := func() (classes, drivers int) {
		t.Helper()
		all, err := c.ResourceV1().DeviceClasses().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.AppsV1().DaemonSets("cpupoold").Get(t.Context(), "cpupool-dra", metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if err == nil {
			drivers = 1
		}
		return len(all.Items), drivers
	}
	const without = "config: {guaranteed: {cpus: 4-7}}\n"
	c.install("cpupoold", without)
	for _, step := range []struct {
		values           string
		classes, drivers int
	}{
		{withClaims, 1, 1},
		{strings.Replace(withClaims, "enabled: true", "enabled: true, deviceClass: false", 1), 0, 1},
		{strings.Replace(withClaims, "enabled: true", "enabled: false", 1), 0, 0},
		{without, 0, 0},
	} {
		if err := c.upgrade("cpupoold", loadChart(t), step.values); err != nil {
			t.Fatal(err)
		}
		release, err := action.NewGet(c.helm("cpupoold")).Run("pools")
		if err != nil {
			t.Fatal(err)
		}
		isTested := slices.ContainsFunc(release.Hooks, func(h *helmrelease.Hook) bool {
			return h.Kind == "Pod" && strings.Contains(h.Manifest, "--daemonset=cpupool-dra")
		})
		if want := step.drivers == 1; isTested != want || strings.Contains(release.Info.Notes, "dra.enabled=false") != want {
			t.Errorf("after %q: helm test waits for the driver: %t; want %t. Notes:\n%s", step.values, isTested, want, release.Info.Notes)
		}
		if classes, drivers := objects(); classes != step.classes || drivers != step.drivers {
			t.Errorf("after %q: %d classes and %d drivers; want %d and %d", step.values, classes, drivers, step.classes, step.drivers)
		}
	}
	if err := c.upgrade("cpupoold", loadChart(t), without+"dra: {enabled: true}"); err == nil || !strings.Contains(err.Error(), "no configuration has guaranteed.claims") {
		t.Errorf("upgrade to a driver without a list: %v; want an error", err)
	}
}

// TestDriverFlags checks that the program has the flags of its pods.
func TestDriverFlags(t *testing.T) {
	page, err := os.ReadFile(docs + "reference/man/cpupool-dra.8")
	if err != nil {
		t.Fatal(err)
	}
	all := render(t, strings.Replace(withClaims, "enabled: true", "enabled: true, accounting: mapped, numaAttributes: [a.b/c]", 1)+"\n")
	paths := render(t, strings.NewReplacer("config:", "config:\n  runDir: /run/a\n  kubeletStateDir: /var/lib/b").Replace(withClaims))
	args := slices.Concat(daemonSet(t, all, "cpupool-dra").Spec.Template.Spec.Containers[0].Args, daemonSet(t, paths, "cpupool-dra").Spec.Template.Spec.Containers[0].Args)
	if len(args) != 6 {
		t.Errorf("arguments are %q; want six", args)
	}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		if !strings.Contains(strings.ReplaceAll(string(page), `\-`, "-"), "\\fB"+name+"\\fP") {
			t.Errorf("the manual page of cpupool-dra lacks %s", name)
		}
	}
}

// mounted returns the directories of the host in the container, which have the same path inside.
func mounted(t *testing.T, spec *corev1.PodSpec) (paths []string) {
	t.Helper()
	for _, m := range spec.Containers[0].VolumeMounts {
		i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || spec.Volumes[i].HostPath == nil || spec.Volumes[i].HostPath.Path != m.MountPath {
			t.Errorf("%s is no directory of the host with the same path", m.MountPath)
		}
		paths = append(paths, m.MountPath)
	}
	return paths
}

// TestChartDRASettings checks that the driver's pods have the settings of the values, and nothing else
// changes.
func TestChartDRASettings(t *testing.T) {
	const name = "cpupool-dra"
	want := changed(&daemonSet(t, files(t, draFiles...), name).Spec.Template)
	resourcesAside(want)
	all := render(t, withClaims[:strings.Index(withClaims, "dra:")]+"dra:\n  enabled: true\n  updateStrategy: {type: OnDelete}"+settings)
	got := daemonSet(t, all, name)
	if d := cmp.Diff(map[string]string{"cpu": "50m", "memory": "64Mi", "limit": "64Mi"}, resourcesAside(&got.Spec.Template)); d != "" {
		t.Errorf("resources (-want +got):\n%s", d)
	}
	if d := cmp.Diff(want, &got.Spec.Template); d != "" {
		t.Errorf("template (-want +got):\n%s", d)
	}
	if s := got.Spec.UpdateStrategy; s.Type != appsv1.OnDeleteDaemonSetStrategyType || s.RollingUpdate != nil {
		t.Errorf("strategy = %+v; want OnDelete", s)
	}
	if d := cmp.Diff(daemonSet(t, files(t, "daemonset.yaml"), "cpupoold").Spec.Template, daemonSet(t, all, "cpupoold").Spec.Template); d != "" {
		t.Errorf("template of the daemon (-plain +rendered):\n%s", d)
	}
}

// TestDeviceClass checks that the class of the manifests is the class of the simulation.
func TestDeviceClass(t *testing.T) {
	got := of[*resourcev1.DeviceClass](files(t, draFiles...))
	if len(got) != 1 {
		t.Fatalf("classes = %d; want 1", len(got))
	}
	if d := cmp.Diff(dra.DeviceClass(), got[0]); d != "" {
		t.Errorf("class (-program +manifest):\n%s", d)
	}
}

// TestDriverAccount checks that role and policies are for the account of the driver's pods.
func TestDriverAccount(t *testing.T) {
	all := files(t, draFiles...)
	name := daemonSet(t, all, "cpupool-dra").Spec.Template.Spec.ServiceAccountName
	if all["ServiceAccount cpupoold "+name] == nil {
		t.Errorf("service account %s is missing", name)
	}
	for _, b := range of[*rbacv1.ClusterRoleBinding](all) {
		if d := cmp.Diff([]rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "cpupoold", Name: name}}, b.Subjects); d != "" {
			t.Errorf("%s (-want +got):\n%s", b.Name, d)
		}
	}
	policies := of[*admissionregistrationv1.ValidatingAdmissionPolicy](all)
	for _, p := range policies {
		if !strings.Contains(p.Spec.MatchConditions[0].Expression, "'system:serviceaccount:cpupoold:"+name+"'") {
			t.Errorf("policy %s does not name the account %s", p.Name, name)
		}
	}
	if len(policies) != 2 {
		t.Errorf("policies = %d; want one of slices and one of claims", len(policies))
	}
}

// TestDriverPod checks the rights of the driver's pod: root without capabilities, in its own network, with
// the directories that it needs. Two pods of the DaemonSet can be on a node, so they share no port.
func TestDriverPod(t *testing.T) {
	set := daemonSet(t, files(t, draFiles...), "cpupool-dra")
	spec := set.Spec.Template.Spec
	if u := set.Spec.UpdateStrategy.RollingUpdate; u.MaxSurge.IntValue() != 1 || u.MaxUnavailable.IntValue() != 0 {
		t.Errorf("update strategy = %+v; want a surge of 1", u)
	}
	if spec.HostNetwork || spec.HostPID || spec.HostIPC {
		t.Error("the pod is in a namespace of the host; want its own")
	}
	c := spec.Containers[0]
	for _, p := range c.Ports {
		if p.HostPort != 0 {
			t.Errorf("port %s is a port of the host: two pods would conflict", p.Name)
		}
	}
	want := &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if d := cmp.Diff(want, c.SecurityContext); d != "" {
		t.Errorf("security context (-want +got):\n%s", d)
	}
	if s := spec.SecurityContext; s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("seccomp profile is %+v; want the runtime's", s.SeccompProfile)
	}
	if c.Resources.Limits.Memory().IsZero() {
		t.Error("the container has no limit for memory")
	}
	if got := mounted(t, &spec); !slices.Equal(got, []string{"/run/cpupoold", "/var/lib/kubelet/plugins/" + dra.Driver, "/var/lib/kubelet/plugins_registry", "/var/run/cdi"}) {
		t.Errorf("mounts are %v", got)
	}
	if m := c.VolumeMounts[0]; !m.ReadOnly {
		t.Error("the daemon's directory is writable; want only its socket usable")
	}
	if got := path.Base(c.Command[0]); len(c.Command) != 1 || got != "cpupool-dra" {
		t.Errorf("command is %v; want cpupool-dra", c.Command)
	}
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"="+e.ValueFrom.FieldRef.FieldPath)
	}
	if d := cmp.Diff([]string{"NODE_NAME=spec.nodeName", "POD_UID=metadata.uid"}, env); d != "" {
		t.Errorf("environment (-want +got):\n%s", d)
	}
}

// TestGuideClaims checks that lint accepts the pod of the guide, and that it gets CPUs with the guide's
// configuration.
func TestGuideClaims(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "kubectl-cpupool")
	run := func(name string, args ...string) string {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %s: %v: %s", filepath.Base(name), strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("go", "-C", "../..", "build", "-o", tool, "./cmd/kubectl-cpupool")
	found := map[string]string{}
	for _, b := range blocks(pages(t)[docs+"how-to/use-resource-claims.md"]) {
		for file, start := range map[string]string{"config.yaml": "apiVersion: config.cpupoold.io", "pods.yaml": "apiVersion: resource.k8s.io"} {
			if strings.HasPrefix(b, start) {
				found[file] = filepath.Join(dir, file)
				if err := os.WriteFile(found[file], []byte(b), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if len(found) != 2 {
		t.Fatalf("the guide has %v; want a configuration and a pod", found)
	}
	run(tool, "lint", "-f", found["pods.yaml"])
	out := run(tool, "simulate", "--topology", "2s8c1t", "-f", found["pods.yaml"], "--config", found["config.yaml"])
	if want := "default/claimed-cpus  cpus     cpu.cpupoold.io/numa1  4      8-11  default/claimed  app\n"; !strings.Contains(out, want) {
		t.Errorf("simulate prints the following; want %q:\n%s", want, out)
	}
}
