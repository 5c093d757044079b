package main

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// apiServer serves lists by path, one item on each page, and objects as they are. A path with the
// text 404 is not found, and all others are forbidden. It returns the kubeconfig.
func apiServer(t *testing.T, lists map[string]string) string {
	t.Helper()
	return kubeconfig(t, func(w http.ResponseWriter, r *http.Request) {
		if object := lists[r.URL.Path]; strings.HasPrefix(object, "{") {
			fmt.Fprint(w, object)
			return
		}
		if lists[r.URL.Path] == "404" {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		kind, items, ok := strings.Cut(lists[r.URL.Path], "\n")
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"kind":"Status","message":"you may not list this"}`)
			return
		}
		item, rest, _ := strings.Cut(items, "\n")
		next := ""
		if r.URL.Query().Get("continue") == "second" {
			item = rest
		} else if rest != "" {
			next = "second"
		}
		version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":%q,"metadata":{"continue":%q},"items":[%s]}`, version, kind, next, item)
	})
}

// kubeconfig starts a server that requires a token, and returns its kubeconfig.
func kubeconfig(t *testing.T, handle http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handle(w, r)
	}))
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{apiVersion: v1, kind: Config, current-context: a, users: [{name: u, user: {token: secret}}, {name: other}],
clusters: [{name: c, cluster: {server: "` + server.URL + `", certificate-authority-data: "` + base64.StdEncoding.EncodeToString(ca) + `"}}],
contexts: [{name: a, context: {cluster: c, user: u}}, {name: b, context: {cluster: c, user: other}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCluster(t *testing.T) {
	const namespaces = "NamespaceList\n" + `{"metadata":{"name":"platform","annotations":{"workload.openshift.io/allowed":"management"}}}` + "\n" + `{"metadata":{"name":"apps"}}`
	const asks = `"annotations":{"target.workload.openshift.io/management":"{\"effect\":\"PreferredDuringScheduling\"}"}`
	const spec = `"spec":{"nodeName":"n","containers":[{"name":"c","resources":{"requests":{"cpu":"1","memory":"1Mi"}}}]}`
	lists := map[string]string{
		"/api/v1/namespaces":        namespaces,
		"/api/v1/pods":              "PodList\n" + `{"metadata":{"name":"p","namespace":"apps"},` + spec + `}` + "\n" + `{"metadata":{"name":"q","namespace":"platform",` + asks + `},` + spec + `}`,
		"/apis/apps/v1/replicasets": "ReplicaSetList\n",
		"/apis/batch/v1/jobs":       "JobList\n",

		"/apis/resource.k8s.io/v1/deviceclasses":          "DeviceClassList\n",
		"/apis/resource.k8s.io/v1/resourceclaimtemplates": "ResourceClaimTemplateList\n" + `{"metadata":{"name":"du","namespace":"apps"},"spec":{"spec":{}}}`,
		"/apis/resource.k8s.io/v1/resourceclaims":         "404",

		"/apis/apps/v1/deployments":  "DeploymentList\n" + `{"metadata":{"name":"d","namespace":"apps"},"spec":{"template":{"metadata":{` + asks + `},` + spec + `}}}`,
		"/apis/apps/v1/statefulsets": "StatefulSetList\n" + `{"metadata":{"name":"s","namespace":"platform"},"spec":{"template":{"metadata":{` + asks + `},` + spec + `}}}`,
		"/apis/apps/v1/daemonsets":   "DaemonSetList\n" + `{"metadata":{"name":"e","namespace":"platform"},"spec":{"template":{` + spec + `}}}`,
		"/apis/batch/v1/cronjobs":    "CronJobList\n",
		"/api/v1/limitranges":        "LimitRangeList\n",
		"/api/v1/resourcequotas":     "ResourceQuotaList\n",

		"/api/v1/replicationcontrollers":                "ReplicationControllerList\n",
		"/apis/autoscaling/v2/horizontalpodautoscalers": "HorizontalPodAutoscalerList\n",

		"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers": "VerticalPodAutoscalerList\n" + `{"metadata":{"name":"v","namespace":"platform"},"spec":{"targetRef":{"kind":"StatefulSet","name":"s"}}}`,
	}
	config := apiServer(t, lists)

	code, out, errs := run("", "adopt", "--dry-run", "--shared-cpus", "--kubeconfig", config)
	if code != exitOK || errs != "read: Namespace (2), Pod (2), ResourceClaimTemplate\n" || !strings.Contains(out, "apps Pod/p: pods 1, cpu 1000m; each becomes openshift.io/shared-cpus=1000") ||
		!strings.Contains(out, "platform Pod/q: pods 1, cpu 1000m; each becomes management.workload.openshift.io/cores=1000") {
		t.Errorf("adopt: exit code %d, output\n%s\nerrors %q", code, out, errs)
	}
	code, out, errs = run("", "lint", "--kubeconfig", config, "--context", "a")
	if code != exitError || !strings.HasPrefix(errs, "note: scaledobjects are not checked: ") || !strings.Contains(errs, "note: clusterqueues are not checked: ") || !strings.Contains(out, `Deployment/d: d runs in the shared pool, because namespace apps does not allow`) ||
		!strings.Contains(out, "VerticalPodAutoscaler/v: VerticalPodAutoscaler v sets the CPU request of StatefulSet s") ||
		!strings.Contains(out, `DaemonSet/e: namespace "platform" allows workload type "management", and the pod asks for none`) {
		t.Errorf("lint: exit code %d, output\n%s\nerrors %q", code, out, errs)
	}
	lists["/apis/batch/v1/jobs"] = "JobList\nnull"
	if code, _, errs := run("", "adopt", "--dry-run", "--kubeconfig", config); code != exitError || !strings.Contains(errs, "item 0 is null") {
		t.Errorf("an item that is null: exit code = %d, errors = %q; want an error", code, errs)
	}
	delete(lists, "/apis/batch/v1/jobs")
	for name, c := range map[string]struct {
		flags []string
		code  int
		want  string
	}{
		"forbidden":    {[]string{"--kubeconfig", config}, exitError, "read /apis/batch/v1/jobs of https://127.0.0.1:"},
		"why":          {[]string{"--kubeconfig", config}, exitError, "the server answers 403 Forbidden: you may not list this"},
		"unauthorized": {[]string{"--kubeconfig", config, "--context", "b"}, exitError, "the server answers 401 Unauthorized"},
		"no context":   {[]string{"--kubeconfig", config, "--context", "x"}, exitError, `context "x" does not exist; see --kubeconfig and --context`},
		"no file":      {[]string{"--kubeconfig", config + "x"}, exitError, "no such file or directory; see --kubeconfig and --context"},
		"both":         {[]string{"--kubeconfig", config, "-f", "-"}, exitUsage, "-f and a cluster: give one of them"},
	} {
		code, out, errs := run("", append([]string{"adopt", "--dry-run"}, c.flags...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d, output %q, errors %q; want %d and %q", name, code, out, errs, c.code, c.want)
		}
	}
}

// TestClusterOfKueue checks that lint reads ClusterQueues of the served version, and Kueue's Configuration.
func TestClusterOfKueue(t *testing.T) {
	const (
		queue  = "ClusterQueueList\n" + `{"metadata":{"name":"q"},"spec":{"resourceGroups":[{"coveredResources":["cpu"],"flavors":[]}]}}`
		config = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"kueue-manager-config","namespace":"kueue-system"},"data":{"controller_manager_config.yaml":` +
			`"apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nresources:\n  excludeResourcePrefixes: [openshift.io/]\n"}}`
		finding = "ClusterQueue/q: coveredResources has cpu and not openshift.io/shared-cpus: Kueue admits no pod"
		noQueue = "note: clusterqueues are not checked: "
		noMap   = "note: the Configuration of Kueue is not checked: "
	)
	for name, c := range map[string]struct {
		objects   map[string]string
		found     bool
		noteStart string
	}{
		"forbidden":       {nil, false, noQueue},
		"v1beta2":         {map[string]string{"v1beta2/clusterqueues": queue}, true, noMap},
		"v1beta1":         {map[string]string{"v1beta2/clusterqueues": "404", "v1beta1/clusterqueues": queue}, true, noMap},
		"excluded":        {map[string]string{"v1beta2/clusterqueues": queue, "configmap": config}, false, ""},
		"not installed":   {map[string]string{"v1beta2/clusterqueues": "404", "v1beta1/clusterqueues": "404"}, false, ""},
		"without a queue": {map[string]string{"v1beta2/clusterqueues": "ClusterQueueList\n"}, false, ""},
	} {
		lists := map[string]string{
			"/apis/kueue.x-k8s.io/v1beta2/clusterqueues": c.objects["v1beta2/clusterqueues"],
			"/apis/kueue.x-k8s.io/v1beta1/clusterqueues": c.objects["v1beta1/clusterqueues"],
			kueueConfigMap: c.objects["configmap"],
		}
		for _, path := range []string{
			"/api/v1/namespaces", "/api/v1/limitranges", "/api/v1/resourcequotas", "/api/v1/replicationcontrollers", "/apis/apps/v1/deployments",
			"/apis/apps/v1/statefulsets", "/apis/apps/v1/daemonsets", "/apis/batch/v1/cronjobs", "/apis/autoscaling/v2/horizontalpodautoscalers",
			"/apis/autoscaling.k8s.io/v1/verticalpodautoscalers", "/apis/keda.sh/v1alpha1/scaledobjects",
		} {
			lists[path] = "List\n"
		}
		_, out, errs := run("", "lint", "--shared-cpus", "--kubeconfig", apiServer(t, lists))
		if found := strings.Contains(out, finding); found != c.found || !strings.Contains(errs, c.noteStart) || c.noteStart == "" && strings.Contains(errs, "note: ") {
			t.Errorf("%s: output\n%s\nerrors %q; want the finding: %t, and the note %q", name, out, errs, c.found, c.noteStart)
		}
	}
}
