package daemon

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

const (
	managementCores = "management.workload.openshift.io/cores"
	sharedCPUs      = "openshift.io/shared-cpus"
	guaranteedCPUs  = "openshift.io/guaranteed-cpus"
)

// shown returns the state that the cluster would see. The loop must have ended.
func (r *running) shown() *nodestatus.State {
	r.stop()
	return stateFor(r.loop)
}

func TestClusterState(t *testing.T) {
	n := newNode(t)
	n.YAML += "units: {du.service: {cpus: 1}}\n"
	target := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	counted := map[string]string{"resources.workload.openshift.io/app": `{"cpushares":409}`}
	maps.Copy(counted, target)
	n.RunContainer(n.RunPod("counted", "kube-system", "burstable", 0, counted), "app", cri.Resources{Shares: 2})
	n.RunContainer(n.RunPod("not-counted", "kube-system", "burstable", 0, target), "app", cri.Resources{Shares: 307})
	n.RunContainer(n.RunPod("forbidden", "default", "burstable", 0, target), "app", cri.Resources{Shares: 102})
	du := n.RunPod("du", "ran", "guaranteed", 2, nil)
	n.RunContainer(du, "cell", nodefixture.WholeCPUs(1))
	n.RunContainer(du, "log", cri.Resources{Shares: 512, Quota: 50000, Period: 100000})
	n.RunContainer(n.RunPod("big", "ran", "guaranteed", 3, nil), "app", nodefixture.WholeCPUs(3))
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 7 })
	s := r.shown()
	pod := func(uid, resource string, containers ...nodestatus.Container) nodestatus.Pod {
		return nodestatus.Pod{UID: uid, Resource: resource, Containers: containers}
	}
	duShown := pod("du", sharedCPUs,
		nodestatus.Container{Name: "cell", Resource: guaranteedCPUs, Milli: 1000, Presumed: true},
		nodestatus.Container{Name: "log", Resource: sharedCPUs, Milli: 500, Presumed: true})
	duShown.Rest = guaranteedCPUs // a CPU of the pod's total is reserved
	want := &nodestatus.State{
		Resources: true,
		// One CPU of the guaranteed pool belongs to the unit.
		Pools: []capacity.Pool{{Resource: sharedCPUs, Milli: 2000}, {Resource: guaranteedCPUs, Milli: 3000}, {Resource: managementCores, Milli: 8000}},
		Pods: []nodestatus.Pod{
			pod("big", sharedCPUs, nodestatus.Container{Name: "app", Resource: sharedCPUs, Milli: 3000, Presumed: true}), // refused
			pod("counted", managementCores, nodestatus.Container{Name: "app", Resource: managementCores, Milli: 400, Annotated: true}),
			duShown,
			pod("forbidden", sharedCPUs, nodestatus.Container{Name: "app", Resource: sharedCPUs, Milli: 100, Presumed: true}),
			pod("not-counted", managementCores, nodestatus.Container{Name: "app", Resource: managementCores, Milli: 300}),
		},
		Taint: "cpupoold.io/starting", Verified: true,
		Depletion: &nodestatus.Depletion{CPUs: 2, Floor: 1, ClearAfter: time.Minute},
		// The unit does not exist.
		Condition: &nodestatus.Condition{Ready: true, Reason: "Degraded", Message: s.Condition.Message},
	}
	problems := s.Problems
	s.Names, s.Problems = want.Names, nil
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	codes := map[string]string{}
	for _, p := range problems {
		codes[p.Namespace+"/"+p.Pod+"/"+p.Container+" "+p.UID] = p.Code
	}
	if diff := cmp.Diff(map[string]string{"default/forbidden/ forbidden": "NamespaceNotListed", "ran/big/app big": "Refused"}, codes); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestClusterNotOffered checks the problem of a pod with whole CPUs that the node does not offer.
// All of its containers have one reason, so the pod gets one event. On a node with enough CPUs the
// shipped configuration offers them.
func TestClusterNotOffered(t *testing.T) {
	shipped, err := os.ReadFile("../../../systemd/config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	none := "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n"
	for _, c := range []struct {
		name, yaml string
		cpus       int
		code, pool string
	}{
		{"shipped configuration", string(shipped), 8, "", "guaranteed"},
		{"shipped configuration on two CPUs", string(shipped), 2, "Refused", "shared"},
		{"no guaranteed pool", none, 8, "NoGuaranteedPool", "shared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNodeOf(t, nodefixture.Spec{CPUs: c.cpus})
			n.YAML = c.yaml
			pod := n.RunPod("db", "apps", "guaranteed", 2, nil)
			for _, name := range []string{"a", "b"} {
				n.RunContainer(pod, name, nodefixture.WholeCPUs(1))
			}
			n.RunContainer(n.RunPod("web", "apps", "burstable", 0, nil), "app", cri.Resources{Shares: 102})
			r := n.start()
			r.view("first pass", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 3 })
			s := r.shown()
			if (len(s.Problems) > 0) != (c.code != "") {
				t.Errorf("problems are %+v; want code %q", s.Problems, c.code)
			}
			for _, p := range s.Problems { // problems of one pod with one code are one event
				if p.UID != "db" || p.Namespace != "apps" || p.Pod != "db" || p.Code != c.code {
					t.Errorf("problem %+v; want code %q of apps/db", p, c.code)
				}
			}
			for _, p := range r.loop.last.Plan.Pods {
				for _, ctr := range p.Containers {
					if p.Name == "db" && (ctr.Name == "a" || ctr.Name == "b") && string(ctr.Pool) != c.pool {
						t.Errorf("container %s is in pool %s; want %s", ctr.Name, ctr.Pool, c.pool)
					}
				}
			}
		})
	}
}

// TestClusterDomains checks that resources have the domains of the configuration.
func TestClusterDomains(t *testing.T) {
	n := newNode(t)
	n.YAML += "annotationDomain: cpu.example.org\npoolDomain: example.com\n"
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready })
	var names []string
	for _, p := range r.shown().Pools {
		names = append(names, p.Resource)
	}
	slices.Sort(names)
	want := []string{"example.com/guaranteed-cpus", "example.com/shared-cpus", "management.cpu.example.org/cores"}
	if !slices.Equal(names, want) {
		t.Errorf("resources %v, want %v", names, want)
	}
}

// TestClusterStateFollowsTheConfiguration checks that exclusive CPUs from the shared pool count
// there, and that resources that are switched off are not shown.
func TestClusterStateFollowsTheConfiguration(t *testing.T) {
	n := newNode(t)
	n.YAML = nodefixture.CarvedYAML
	n.RunContainer(n.RunPod("du", "ran", "guaranteed", 2, nil), "cell", nodefixture.WholeCPUs(2))
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready && len(v.Containers) == 1 })
	s := r.shown()
	for _, p := range s.Pools {
		if p.Resource == guaranteedCPUs {
			t.Error("CPUs that are carved out of the shared pool are advertised twice")
		}
	}
	if c := s.Pods[0].Containers[0]; c.Resource != sharedCPUs || c.Milli != 2000 {
		t.Errorf("container is counted as %+v", c)
	}
	r.loop.settings.Config.Node = config.Node{}
	if s := stateFor(r.loop); s.Resources || s.Pools != nil || s.Condition != nil || s.Problems != nil || s.Taint != "" {
		t.Errorf("with everything off: %+v", s)
	}
}

func TestConditionOfTheNode(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready })
	n.YAML = "nonsense"
	r.loop.watchers.reload()
	r.view("refusal", func(v *telemetry.View) bool { return v.ConfigStale })
	if c := r.shown().Condition; !c.Ready || c.Reason != "ConfigurationRefused" {
		t.Errorf("condition %+v", c)
	}
	r.loop.publisher.States.Listed(fmt.Errorf("no answer"))
	if c := conditionOf(r.loop); c.Ready || c.Reason != "RuntimeUnavailable" {
		t.Errorf("condition %+v", c)
	}
}

// api is an API server with one Node. It stores the patches that it receives.
type api struct {
	mu      sync.Mutex
	status  map[string]any
	spec    any
	patches []string
	hangs   bool
}

func (a *api) told(text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return strings.Contains(strings.Join(a.patches, "\n"), text)
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.hangs {
		<-r.Context().Done()
		return
	}
	if r.Method != http.MethodPatch {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": "ADDED", "object": a.node(nil, nil)})
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	var patch struct {
		Status map[string]any `json:"status"`
		Spec   any            `json:"spec"`
	}
	_ = json.NewDecoder(r.Body).Decode(&patch)
	_ = json.NewEncoder(w).Encode(a.node(patch.Status, patch.Spec))
}

// node returns the Node after a patch of its status or spec.
func (a *api) node(patch map[string]any, spec any) map[string]any {
	a.mu.Lock()
	defer a.mu.Unlock()
	if spec != nil {
		text, _ := json.Marshal(spec)
		a.patches = append(a.patches, string(text))
		a.spec = spec
	}
	if patch != nil {
		text, _ := json.Marshal(patch)
		a.patches = append(a.patches, string(text))
	}
	status := maps.Clone(a.status) // the previous map may be in a response
	if status == nil {
		status = make(map[string]any)
	}
	for key, value := range patch {
		is, some := status[key].(map[string]any)
		changes, more := value.(map[string]any)
		if some && more {
			merged := maps.Clone(is)
			maps.Copy(merged, changes)
			value = merged
		}
		if key == "conditions" {
			value = mergeConditions(status[key], value)
		}
		status[key] = value
	}
	a.status = status
	version := strconv.Itoa(1 + len(a.patches))
	return map[string]any{"metadata": map[string]any{"name": "n1", "uid": "u", "resourceVersion": version}, "spec": a.spec, "status": status}
}

// mergeConditions merges lists of conditions by type.
func mergeConditions(is, changes any) []any {
	all, _ := is.([]any)
	all = slices.Clone(all)
	more, _ := changes.([]any)
	for _, change := range more {
		typ := change.(map[string]any)["type"]
		all = slices.DeleteFunc(all, func(c any) bool { return c.(map[string]any)["type"] == typ })
		if change.(map[string]any)["$patch"] == nil {
			all = append(all, change)
		}
	}
	return all
}

// shows returns the status of a condition and the number of taints.
func (a *api) shows(typ string) (status string, taints int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, _ := a.status["conditions"].([]any)
	for _, c := range all {
		if c := c.(map[string]any); c["type"] == typ {
			status, _ = c["status"].(string)
		}
	}
	spec, _ := a.spec.(map[string]any)
	list, _ := spec["taints"].([]any)
	return status, len(list)
}

// joined starts a daemon whose node is in the cluster of a.
func (n *node) joined(a *api) *running { return n.joinedAt(a, time.Now) }

// joinedAt is joined with another clock for the state that the cluster sees.
func (n *node) joinedAt(a *api, now func() time.Time) *running {
	n.T.Helper()
	n.YAML += "node: {name: n1, kubeconfig: " + n.kubeconfig(a) + "}\n"
	o := n.options()
	var cluster *nodestatus.Runner
	l, err := newLoop(n.Host(), o)
	if err == nil {
		cluster, err = newCluster(o)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	cluster.Now = now
	l.publisher.Join(cluster)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		cluster.Run(ctx)
	}()
	n.T.Cleanup(func() { cancel(); <-done })
	return n.serve(l)
}

// kubeconfig returns the path of a kubeconfig for an API server with handler a.
func (n *node) kubeconfig(a http.Handler) string {
	n.T.Helper()
	server := httptest.NewTLSServer(a)
	n.T.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	file := filepath.Join(n.Dir, "kubeconfig")
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text, err := json.Marshal(map[string]any{
		"current-context": "c",
		"contexts":        []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c", "user": "u"}}},
		"clusters":        []any{map[string]any{"name": "c", "cluster": map[string]any{"server": server.URL, "certificate-authority-data": ca}}},
		"users":           []any{map[string]any{"name": "u", "user": map[string]any{"token": "t"}}},
	})
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return file
}

func TestClusterIsShown(t *testing.T) {
	n, a := newNode(t), new(api)
	r := n.joined(a)
	n.Eventually("resources", func() bool {
		return a.told(`"`+sharedCPUs+`":"2000"`) && a.told(`"`+guaranteedCPUs+`":"4000"`) && a.told(`"`+managementCores+`":"8000"`)
	})
	n.Eventually("metrics", func() bool {
		v := r.loop.publisher.Metrics()
		return v != nil && v.Node != nil && v.Sources[telemetry.APIServer] == telemetry.SourceOK && len(v.Node.Resources) == 3 && v.Node.Patches[telemetry.OK] > 0
	})
	if _, is := r.loop.publisher.Latest().View.Sources[telemetry.APIServer]; is {
		t.Error("the published view has changed")
	}
	n.YAML = strings.Replace(n.YAML, "cpus: 4-7", "cpus: 6-7", 1)
	r.loop.watchers.reload()
	n.Eventually("a smaller pool", func() bool { return a.told(`"` + guaranteedCPUs + `":"2000"`) })
}

// TestClusterHangs checks that the node works while the API server does not answer.
func TestClusterHangs(t *testing.T) {
	n := newNode(t)
	r := n.joined(&api{hangs: true})
	r.view("first pass", func(v *telemetry.View) bool { return v.Ready })
	n.AwaitCPUs(n.RunContainer(n.RunPod("du", "ran", "guaranteed", 2, nil), "cell", nodefixture.WholeCPUs(2)), "4-5")
	r.quiet()
	if s := r.loop.publisher.Metrics().Sources[telemetry.APIServer]; s != telemetry.SourceLost {
		t.Errorf("source is %s; want %s", s, telemetry.SourceLost)
	}
}

// stateFor returns the state that the cluster sees.
func stateFor(l *Loop) *nodestatus.State {
	return l.publisher.ClusterState(&l.last)
}

// conditionOf returns the condition of the node.
func conditionOf(l *Loop) *nodestatus.Condition {
	return stateFor(l).Condition
}
