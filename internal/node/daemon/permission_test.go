package daemon

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/permission"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// namespaces is an API server with one namespace, edge. At first it does not answer.
type namespaces struct {
	mu      sync.Mutex
	changed chan struct{}
	here    bool
	version int
	allowed string
}

func (a *namespaces) become(here bool, allowed string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.here, a.allowed = here, allowed; a.changed != nil {
		close(a.changed)
	}
	a.version++
	a.changed = make(chan struct{})
}

func (a *namespaces) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	edge := func() (object map[string]any, here bool, version string, changed chan struct{}) {
		a.mu.Lock()
		defer a.mu.Unlock()
		version = strconv.Itoa(a.version)
		return map[string]any{"metadata": map[string]any{"name": "edge", "resourceVersion": version,
			"annotations": map[string]string{"workload.openshift.io/allowed": a.allowed}}}, a.here, version, a.changed
	}
	object, here, version, changed := edge()
	switch {
	case !here:
		w.WriteHeader(http.StatusServiceUnavailable)
	case r.URL.Query().Get("watch") == "":
		_ = json.NewEncoder(w).Encode(map[string]any{"metadata": map[string]any{"resourceVersion": version}, "items": []any{object}})
	default:
		w.(http.Flusher).Flush()
		if r.URL.Query().Get("resourceVersion") == version {
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
		for {
			if object, here, _, changed = edge(); !here {
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": object})
			w.(http.Flusher).Flush()
			select {
			case <-changed:
			case <-r.Context().Done():
				return
			}
		}
	}
}

// startAsking starts a daemon with namespacePermission as configured, and with short pauses.
func (n *node) startAsking() *running {
	n.T.Helper()
	o := n.options()
	l, err := newLoop(n.Host(), o)
	if err != nil {
		n.T.Fatal(err)
	}
	quick, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err == nil {
		quick.Limits = nodestatus.Limits{Start: time.Millisecond, Pause: 50 * time.Millisecond}
		var follow *nodestatus.Namespaces
		follow, err = nodestatus.NewNamespaces(*quick, o.Config.Names(), nodestatus.PermissionsPath(o.Config))
		l.planner.Permit(permission.New(follow))
	}
	if err != nil {
		n.T.Fatal(err)
	}
	return n.serve(l)
}

// problem waits until a pod has a problem of this code, and returns the text.
func (r *running) problem(uid string, code pools.Code) (text string) {
	r.T.Helper()
	r.view(string(code)+" of "+uid, func(*telemetry.View) bool {
		for _, p := range r.problemsNow() {
			if p.PodUID == uid && p.Code == code {
				text = p.Text
				return true
			}
		}
		return false
	})
	return text
}

func (r *running) problemsNow() (all []pools.Problem) {
	r.inspect(func(l *Loop) { all = l.publisher.Problems(&l.last) })
	return all
}

// TestNamespacePermission checks that without a webhook the annotation of a namespace lets its
// pods request a type. An unknown namespace allows nothing, and running containers stay.
func TestNamespacePermission(t *testing.T) {
	n, a := newNode(t), new(namespaces)
	n.YAML += "namespacePermission: annotation\nstateDir: " + n.Dir + "\nnode: {name: n1, kubeconfig: " + n.kubeconfig(a) + "}\n"
	target := map[string]string{"target.workload.openshift.io/management": `{"effect":"PreferredDuringScheduling"}`}
	pod := func(uid, namespace string) string {
		return n.RunContainer(n.RunPod(uid, namespace, "burstable", 0, target), "app", cri.Resources{Shares: 307})
	}
	listed, first := pod("listed", "kube-system"), pod("first", "edge")
	r := n.startAsking()
	n.AwaitCPUs(listed, "0-1")
	n.AwaitCPUs(first, "2-3")
	if text := r.problem("first", pools.CodeNamespaceUnknown); !strings.Contains(text, "the API server does not answer") {
		t.Error(text)
	}
	a.become(true, "infra,management")
	n.AwaitCPUs(first, "0-1")
	r.view("source", func(v *telemetry.View) bool { return v.Sources[telemetry.Namespaces] == telemetry.SourceOK })

	a.become(true, "infra")
	r.view("revoked", func(*telemetry.View) (known bool) {
		r.inspect(func(l *Loop) { known = len(l.planner.Permission.Rights().Permissions["edge"].Ended) > 0 })
		return known
	})
	second := pod("second", "edge")
	if text := r.problem("second", pools.CodeNamespaceNotListed); !strings.Contains(text, "nor does its annotation workload.openshift.io/allowed") {
		t.Error(text)
	}
	n.AwaitCPUs(second, "2-3")
	n.AwaitCPUs(first, "0-1")
	n.CheckOccupants()

	// The next daemon has no API server, and knows both namespaces.
	r.stop()
	a.become(false, "")
	r = n.startAsking()
	r.quiet()
	n.AwaitCPUs(first, "0-1")
	n.AwaitCPUs(second, "2-3")
	r.problem("second", pools.CodeNamespaceUnknown)
	for _, p := range r.problemsNow() {
		if p.PodUID == "first" {
			t.Errorf("who runs has lost the permission: %+v", p)
		}
	}
	n.CheckOccupants()
}

// TestNamespacePermissionNeedsAServer checks the error of a start without access to an API
// server.
func TestNamespacePermissionNeedsAServer(t *testing.T) {
	n := newNode(t)
	n.YAML += "namespacePermission: annotation\nnode: {enabled: false}\n"
	o := n.options()
	l, err := newLoop(n.Host(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := permission.Open(o.Config, o.Environment, o.Log); err == nil {
		t.Error("no error without an API server")
	}
	changed := *o.Config
	changed.NamespacePermission, changed.AnnotationDomain = config.PermissionList, "example.org"
	if keys := l.settings.RestartKeys(&changed); len(keys) != 2 {
		t.Errorf("keys that need a restart: %v; want namespacePermission and annotationDomain", keys)
	}
}
