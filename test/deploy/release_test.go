package deploy

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// A cluster runs helm's commands for the release pools, with helm's own code.
type cluster struct {
	*kubernetes.Clientset
	t      *testing.T
	config *rest.Config
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	config := startCluster(t)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{client, t, config}
}

// helm returns the configuration of helm's commands with --namespace.
func (c *cluster) helm(namespace string) *action.Configuration {
	c.t.Helper()
	cache := c.t.TempDir()
	flags := genericclioptions.NewConfigFlags(false)
	flags.APIServer, flags.BearerToken, flags.Insecure = &c.config.Host, &c.config.BearerToken, &c.config.Insecure
	flags.Namespace, flags.CacheDir = &namespace, &cache
	flags.WithDiscoveryQPS(-1)
	helm := &action.Configuration{}
	if err := helm.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		c.t.Fatal(err)
	}
	return helm
}

func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// install runs helm install --create-namespace.
func (c *cluster) install(namespace, values string, flags ...func(*action.Install)) {
	c.t.Helper()
	install := action.NewInstall(c.helm(namespace))
	install.ReleaseName, install.Namespace, install.CreateNamespace = "pools", namespace, true
	for _, set := range flags {
		set(install)
	}
	release, err := install.Run(loadChart(c.t), parseValues(c.t, values))
	if err != nil {
		c.t.Fatal(err)
	}
	if !strings.Contains(release.Info.Notes, "--namespace cpupoold") {
		c.t.Errorf("notes lack the namespace of the daemons:\n%s", release.Info.Notes)
	}
}

// upgrade runs helm upgrade with values.
func (c *cluster) upgrade(namespace string, chart *chart.Chart, values string) error {
	c.t.Helper()
	upgrade := action.NewUpgrade(c.helm(namespace))
	upgrade.Namespace = namespace
	_, err := upgrade.Run("pools", chart, parseValues(c.t, values))
	return err
}

func (c *cluster) uninstall(namespace string) {
	c.t.Helper()
	if _, err := action.NewUninstall(c.helm(namespace)).Run("pools"); err != nil {
		c.t.Fatal(err)
	}
}

// configuration returns the installed configuration of the daemons.
func (c *cluster) configuration() *corev1.ConfigMap {
	c.t.Helper()
	m, err := c.CoreV1().ConfigMaps("cpupoold").Get(c.t.Context(), "cpupoold", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *cluster) daemons() *appsv1.DaemonSet {
	c.t.Helper()
	s, err := c.AppsV1().DaemonSets("cpupoold").Get(c.t.Context(), "cpupoold", metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return s
}

// namespace returns a namespace, or nil if it does not exist or is being deleted: no
// controller completes the deletion.
func (c *cluster) namespace(name string) *corev1.Namespace {
	c.t.Helper()
	n, err := c.CoreV1().Namespaces().Get(c.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && n.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return n
}

// binds reports whether there is a ClusterRoleBinding.
func (c *cluster) binds(name string) bool {
	c.t.Helper()
	_, err := c.RbacV1().ClusterRoleBindings().Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	return err == nil
}

// newer returns the chart with another default configuration.
func newer(t *testing.T) *chart.Chart {
	t.Helper()
	c := loadChart(t)
	for _, f := range c.Files {
		f.Data = []byte(strings.NewReplacer("cpus: auto", "cpus: 0-3", "types: {management: auto}", "types: {}").Replace(string(f.Data)))
	}
	return c
}

const edited = `# of the administrator
apiVersion: config.cpupoold.io/v1alpha1
kind: CPUPoolConfiguration
partitions: [{type: management, cpus: 0-5, namespaces: [kube-system, cpupoold]}]
node: {events: false}
`

// TestRelease checks install, upgrade, rollback and uninstall in the namespace of the daemon. An
// upgrade keeps the installed configuration, and the rights follow it. The namespace is not
// part of the release.
func TestRelease(t *testing.T) {
	c := newCluster(t)
	c.install("cpupoold", "webhook: {enabled: true}")
	first := c.configuration().Data["config.yaml"]
	if !strings.Contains(first, "cpus: auto") || !c.binds("cpupoold-events") {
		t.Errorf("installed configuration differs from the default:\n%s", first)
	}
	if _, owned := c.namespace("cpupoold").Annotations["meta.helm.sh/release-name"]; owned {
		t.Error("the namespace of the release is part of the release; want it separate")
	}
	hooks := c.namespace("cpupool-webhook")
	if hooks == nil || hooks.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("namespace of the webhook = %+v; want restricted", hooks)
	}

	m := c.configuration()
	m.Data["config.yaml"] = edited
	if _, err := c.CoreV1().ConfigMaps("cpupoold").Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.upgrade("cpupoold", newer(t), "{webhook: {enabled: true}, image: {tag: '2'}}"); err != nil {
		t.Fatal(err)
	}
	if got := c.configuration().Data["config.yaml"]; got != edited {
		t.Errorf("configuration after the upgrade = the following; want the edited one:\n%s", got)
	}
	if c.binds("cpupoold-events") {
		t.Error("rights differ from the installed configuration; want no right for events")
	}
	if image := c.daemons().Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":2") {
		t.Errorf("image after the upgrade = %s; want :2", image)
	}
	review, err := c.CoreV1().ConfigMaps("cpupool-webhook").Get(t.Context(), "cpupool-webhook", metav1.GetOptions{})
	if err != nil || !strings.Contains(review.Data["config.yaml"], "management: auto") {
		t.Errorf("the configuration of the webhook after the upgrade: %v, %v", review, err)
	}
	if err := c.upgrade("cpupoold", newer(t), "{webhook: {enabled: true}, config: {logLevel: debug}}"); err != nil {
		t.Fatal(err)
	}
	if got := c.configuration().Data["config.yaml"]; !strings.Contains(got, "logLevel: debug") || strings.Contains(got, "0-5") {
		t.Errorf("configuration after the upgrade = the following; want the values:\n%s", got)
	}

	rollback := action.NewRollback(c.helm("cpupoold"))
	rollback.Version = 2
	if err := rollback.Run("pools"); err != nil {
		t.Fatal(err)
	}
	if got := c.configuration().Data["config.yaml"]; got != edited {
		t.Errorf("configuration after the rollback = the following; want the edited one:\n%s", got)
	}
	if err := c.upgrade("cpupoold", newer(t), "webhook: {enabled: false}"); err != nil {
		t.Fatal(err)
	}
	if c.namespace("cpupool-webhook") != nil {
		t.Error("namespace of the disabled webhook exists; want it deleted")
	}

	c.uninstall("cpupoold")
	if c.namespace("cpupoold") == nil {
		t.Error("uninstall deleted the namespace of the release; want it kept")
	}
	if sets, err := c.AppsV1().DaemonSets("").List(t.Context(), metav1.ListOptions{}); err != nil || len(sets.Items) > 0 {
		t.Errorf("%d DaemonSets after uninstall, %v", len(sets.Items), err)
	}
	if c.binds("cpupoold-taints") {
		t.Error("rights exist after uninstall; want none")
	}
}

// TestReleaseElsewhere checks a release outside of the namespace cpupoold, as the earlier
// documents installed it. Its upgrades keep the namespace, also without createNamespaces.
func TestReleaseElsewhere(t *testing.T) {
	c := newCluster(t)
	c.install("kube-system", "")
	before := c.namespace("cpupoold")
	if before == nil || before.Labels["pod-security.kubernetes.io/enforce"] != "privileged" || before.Annotations["workload.openshift.io/allowed"] != "management" {
		t.Fatalf("namespace = %+v; want privileged and management", before)
	}
	if err := c.upgrade("kube-system", newer(t), "image: {tag: '2'}"); err != nil {
		t.Fatal(err)
	}
	kept := func() {
		t.Helper()
		if n := c.namespace("cpupoold"); n == nil || n.UID != before.UID {
			t.Fatal("the upgrade deleted the namespace; want it kept")
		}
	}
	kept()
	err := c.upgrade("kube-system", loadChart(t), "createNamespaces: false")
	if err == nil || !strings.Contains(err.Error(), "kubectl annotate namespace cpupoold helm.sh/resource-policy=keep") {
		t.Errorf("upgrade without the namespace: %v; want the command that keeps it", err)
	}
	kept()
	patch := []byte(`{"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}}`)
	if _, err := c.CoreV1().Namespaces().Patch(t.Context(), "cpupoold", types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.upgrade("kube-system", loadChart(t), "createNamespaces: false"); err != nil {
		t.Fatal(err)
	}
	kept()
	if image := c.daemons().Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":1") {
		t.Errorf("image after the upgrade = %s; want :1", image)
	}
}

// TestReleaseMoves checks the path of docs/how-to/upgrade.md from a release in kube-system to
// one in cpupoold: no object is deleted, and the configuration stays.
func TestReleaseMoves(t *testing.T) {
	c := newCluster(t)
	c.install("kube-system", "config: {logLevel: debug}\nwebhook: {enabled: true}")
	namespaces := map[string]types.UID{"cpupoold": "", "cpupool-webhook": ""}
	for name := range namespaces {
		namespaces[name] = c.namespace(name).UID
	}
	set, config := c.daemons().UID, c.configuration()

	c.install("cpupoold", "webhook: {enabled: true}", func(i *action.Install) { i.TakeOwnership = true })
	if err := c.CoreV1().Secrets("kube-system").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "owner=helm,name=pools"}); err != nil {
		t.Fatal(err)
	}
	if got := c.configuration(); got.UID != config.UID || got.Data["config.yaml"] != config.Data["config.yaml"] {
		t.Errorf("configuration was replaced by the following; want the earlier one:\n%s", got.Data["config.yaml"])
	}
	if c.daemons().UID != set {
		t.Error("the DaemonSet was replaced; want the same one")
	}
	if err := c.upgrade("cpupoold", loadChart(t), "{webhook: {enabled: true}, image: {tag: '2'}}"); err != nil {
		t.Fatal(err)
	}
	for name, uid := range namespaces {
		if n := c.namespace(name); n == nil || n.UID != uid {
			t.Errorf("namespace %s was deleted; want it kept", name)
		}
	}
	c.uninstall("cpupoold")
	if c.namespace("cpupoold") == nil || c.namespace("cpupool-webhook") != nil {
		t.Error("uninstall deleted the namespace of the release, or kept the webhook's; want the opposite")
	}
}

// TestReleaseTest checks helm test: its pod runs with minimal rights, its failure fails the
// command, and no object is left after a success.
func TestReleaseTest(t *testing.T) {
	c := newCluster(t)
	c.install("cpupoold", "webhook: {enabled: true}\nimage: {pullSecrets: [registry]}")
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		ended := make(chan error, 1)
		go func() {
			test := action.NewReleaseTesting(c.helm("cpupoold"))
			test.Timeout = time.Minute
			_, err := test.Run("pools")
			ended <- err
		}()
		pod := c.testPod()
		c.checkTestPod(pod)
		pod.Status.Phase = phase
		if _, err := c.CoreV1().Pods("cpupoold").UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; (err != nil) != (phase == corev1.PodFailed) {
			t.Errorf("helm test with a pod in phase %s: %v", phase, err)
		}
	}
	pods, err := c.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 || c.binds("cpupoold-test") {
		t.Errorf("%d pods after helm test, %v; want no pod and no rights", len(pods.Items), err)
	}
}

// testPod waits for a new pod of helm test.
func (c *cluster) testPod() *corev1.Pod {
	c.t.Helper()
	w, err := c.CoreV1().Pods("cpupoold").Watch(c.t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		c.t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if pod, ok := e.Object.(*corev1.Pod); ok && e.Type == watch.Added && pod.Status.Phase != corev1.PodFailed {
			if now, err := c.CoreV1().Pods("cpupoold").Get(c.t.Context(), pod.Name, metav1.GetOptions{}); err == nil && now.UID == pod.UID && now.Status.Phase != corev1.PodFailed {
				return now
			}
		}
	}
	c.t.Fatal("pod of helm test is missing")
	return nil
}

// checkTestPod checks the command of the pod of helm test, and its rights.
func (c *cluster) checkTestPod(pod *corev1.Pod) {
	c.t.Helper()
	spec := pod.Spec
	want := []string{"verify", "--timeout=2m", "--daemonset=cpupoold", "--condition=cpupoold", "--review-in=default"}
	if d := cmp.Diff(want, spec.Containers[0].Args); d != "" {
		c.t.Errorf("arguments (-want +got):\n%s", d)
	}
	if spec.Containers[0].Image != c.daemons().Spec.Template.Spec.Containers[0].Image || len(spec.ImagePullSecrets) != 1 {
		c.t.Errorf("image %s, pull secrets %v; want the daemon's", spec.Containers[0].Image, spec.ImagePullSecrets)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	if r := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &pod.ObjectMeta, &spec)); !r.Allowed {
		c.t.Errorf("pod is not restricted: %s", r.ForbiddenDetail())
	}
	got := map[string][]rbacv1.PolicyRule{}
	for namespace, name := range map[string]string{"cpupoold": "cpupoold-test", "default": "cpupoold-test-review"} {
		role, err := c.RbacV1().Roles(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			c.t.Fatal(err)
		}
		got[namespace] = role.Rules
	}
	rights := map[string][]rbacv1.PolicyRule{
		"cpupoold": {
			{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, ResourceNames: []string{"cpupoold"}},
			{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}},
		},
		"default": {{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"pods"}}},
	}
	if d := cmp.Diff(rights, got); d != "" {
		c.t.Errorf("rights in namespaces (-want +got):\n%s", d)
	}
}
