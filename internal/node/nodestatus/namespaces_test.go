package nodestatus_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"log/slog"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// namespaceAPI is an API server with namespaces. It lists them in pages of two, and sends
// changes after a version.
type namespaceAPI struct {
	t      *testing.T
	server *httptest.Server
	dir    string

	mu      sync.Mutex
	changed chan struct{}
	version int
	all     map[string]map[string]string // annotations
	log     []namespaceEvent
	oldest  int // earlier versions cause 410
	down    bool
	lists   int
	watches []string // their start versions
}

type namespaceEvent struct {
	kind, name  string
	version     int
	annotations map[string]string
}

func newNamespaceAPI(t *testing.T) *namespaceAPI {
	f := &namespaceAPI{t: t, dir: t.TempDir(), changed: make(chan struct{}), version: 10, all: make(map[string]map[string]string)}
	f.server = httptest.NewTLSServer(f)
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	for name, data := range map[string][]byte{
		"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw}),
		"token":  []byte("token"),
	} {
		if err := os.WriteFile(filepath.Join(f.dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func (f *namespaceAPI) options() nodestatus.Options {
	host, port, _ := strings.Cut(strings.TrimPrefix(f.server.URL, "https://"), ":")
	a, err := nodestatus.InCluster(host, port, f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return nodestatus.Options{Access: a, Log: slog.New(slog.DiscardHandler), Limits: nodestatus.Limits{Call: 5 * time.Second, Start: time.Millisecond, Pause: 100 * time.Millisecond}}
}

func (f *namespaceAPI) file() string { return filepath.Join(f.dir, "namespaces.json") }

func (f *namespaceAPI) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// set creates, changes or, with kind DELETED, deletes a namespace.
func (f *namespaceAPI) set(kind, name, types string) {
	f.do(func() {
		f.version++
		annotations := map[string]string{"other": "x"}
		if types != "" {
			annotations["workload.openshift.io/allowed"] = types
		}
		f.log = append(f.log, namespaceEvent{kind, name, f.version, annotations})
		if f.all[name] = annotations; kind == "DELETED" {
			delete(f.all, name)
		}
	})
}

// cut closes all connections, and refuses new ones until a call with false.
func (f *namespaceAPI) cut(down bool) {
	f.do(func() { f.down = down })
	if down {
		f.server.CloseClientConnections()
	}
}

func (f *namespaceAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down {
		refuse(w, http.StatusServiceUnavailable, "down")
		return
	}
	q, form := r.URL.Query(), r.Header.Get("Accept")
	if r.URL.Path != "/api/v1/namespaces" || !strings.Contains(form, "as=PartialObjectMetadata") {
		f.t.Errorf("%s %s, accepts %s", r.Method, r.URL, form)
	}
	if q.Get("watch") == "true" {
		f.watch(w, r)
		return
	}
	if !q.Has("continue") {
		f.do(func() { f.lists++ })
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name := range f.all {
		if name > q.Get("continue") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list := metav1.PartialObjectMetadataList{}
	list.ResourceVersion = strconv.Itoa(f.version)
	if len(names) > 2 {
		names = names[:2]
		list.Continue = names[1]
	}
	for _, name := range names {
		list.Items = append(list.Items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: f.all[name]}})
	}
	answer(w, list)
}

func (f *namespaceAPI) watch(w http.ResponseWriter, r *http.Request) {
	from, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil || r.URL.Query().Get("allowWatchBookmarks") != "true" {
		f.t.Errorf("watch %s", r.URL)
	}
	f.mu.Lock()
	oldest := f.oldest
	f.mu.Unlock()
	f.do(func() { f.watches = append(f.watches, strconv.Itoa(from)) })
	w.Header().Set("Content-Type", "application/json")
	send := func(kind string, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		w.(http.Flusher).Flush()
	}
	if from < oldest {
		send("ERROR", metav1.Status{Code: http.StatusGone, Reason: "Expired"})
		return
	}
	w.(http.Flusher).Flush()
	for {
		f.mu.Lock()
		events, changed, now := slices.Clone(f.log), f.changed, f.version
		f.mu.Unlock()
		for _, e := range events {
			if e.version > from {
				var o metav1.PartialObjectMetadata
				o.Name, o.Annotations, o.ResourceVersion = e.name, e.annotations, strconv.Itoa(e.version)
				send(e.kind, o)
			}
		}
		if now > from { // for changes of other objects
			var o metav1.PartialObjectMetadata
			o.ResourceVersion = strconv.Itoa(now)
			send("BOOKMARK", o)
		}
		from = now
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// follower is a running Namespaces, with its last update.
type follower struct {
	t       *testing.T
	updates chan nodestatus.Allowed
	last    nodestatus.Allowed
	stop    func()
}

func (f *namespaceAPI) follow() *follower {
	f.t.Helper()
	n, err := nodestatus.NewNamespaces(f.options(), workload.Names{}, f.file())
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	to := &follower{t: f.t, updates: make(chan nodestatus.Allowed), last: n.Known()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Run(ctx, func(a nodestatus.Allowed) {
			select {
			case to.updates <- a:
			case <-ctx.Done():
			}
		})
	}()
	to.stop = func() { cancel(); <-done }
	f.t.Cleanup(to.stop)
	return to
}

// until reads updates until one is as expected.
func (to *follower) until(what string, holds func(nodestatus.Allowed) bool) {
	to.t.Helper()
	late := time.After(nodefixture.Timeout)
	for !holds(to.last) {
		select {
		case to.last = <-to.updates:
		case <-late:
			to.t.Fatalf("timed out: %s; known is %+v", what, to.last)
		}
	}
}

func (to *follower) allows(namespace string, want bool) {
	to.t.Helper()
	to.until(namespace, func(a nodestatus.Allowed) bool {
		return a.Current && a.Allows(namespace, "management", 0) == want
	})
}

// TestNamespaces checks that permissions come from a list, and then from its changes.
func TestNamespaces(t *testing.T) {
	f := newNamespaceAPI(t)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		f.set("ADDED", name, "")
	}
	f.set("MODIFIED", "e", "management")
	to := f.follow()
	to.allows("e", true)
	f.set("ADDED", "new", "infra,management")
	to.allows("new", true)
	f.set("MODIFIED", "e", "infra")
	to.allows("e", false)
	if made := time.Now().Add(-time.Hour).UnixNano(); !to.last.Allows("e", "management", made) {
		t.Error("a pod from before the end of the permission has lost it")
	}
	f.set("DELETED", "new", "infra,management")
	to.allows("new", false)
}

// TestNamespacesResume checks that a watch continues from the last version without a list, and
// that a new list follows if that version has expired.
func TestNamespacesResume(t *testing.T) {
	f := newNamespaceAPI(t)
	f.set("ADDED", "a", "management")
	to := f.follow()
	to.allows("a", true)
	f.set("ADDED", "b", "") // changes only the version
	f.set("ADDED", "c", "management")
	to.allows("c", true)
	f.cut(true)
	to.until("away", func(a nodestatus.Allowed) bool { return !a.Current })
	if !to.last.Allows("a", "management", 0) {
		t.Error("permissions are lost while the API server is down")
	}
	f.set("MODIFIED", "a", "")
	f.cut(false)
	to.allows("a", false)
	f.mu.Lock()
	if f.lists != 1 || f.watches[len(f.watches)-1] != "13" {
		t.Errorf("%d lists, watches from %v; want one list, and the last watch from 13", f.lists, f.watches)
	}
	f.mu.Unlock()

	f.cut(true)
	to.until("away", func(a nodestatus.Allowed) bool { return !a.Current })
	f.set("MODIFIED", "a", "management")
	f.do(func() { f.oldest, f.log = f.version, nil })
	f.cut(false)
	to.allows("a", true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.lists != 2 {
		t.Errorf("%d lists; want another one after the version was gone", f.lists)
	}
}

// TestNamespacesWithoutServer checks that a daemon that starts without an API server has the
// permissions from the file of an earlier daemon.
func TestNamespacesWithoutServer(t *testing.T) {
	f := newNamespaceAPI(t)
	f.set("ADDED", "a", "management")
	f.set("ADDED", "b", "management")
	to := f.follow()
	to.allows("a", true)
	f.set("MODIFIED", "b", "")
	to.allows("b", false)
	to.stop()
	f.cut(true)
	to = f.follow()
	if a := to.last; a.Current || !a.Allows("a", "management", 0) || a.Allows("b", "management", 0) {
		t.Errorf("known at the start: %+v; want a, and not current", a)
	}
	if !to.last.Allows("b", "management", time.Now().Add(-time.Hour).UnixNano()) {
		t.Error("the earlier permission of b is lost")
	}
	f.set("DELETED", "a", "management")
	f.cut(false)
	to.allows("a", false)
}

// TestReadPermissions checks that an unusable file causes an error and no permissions.
func TestReadPermissions(t *testing.T) {
	f := newNamespaceAPI(t)
	f.set("ADDED", "a", "management")
	to := f.follow()
	to.allows("a", true)
	to.stop()
	whole, err := os.ReadFile(f.file())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text  string
		names workload.Names
		want  string
	}{
		"as written":     {text: string(whole)},
		"empty":          {text: "", want: "end of JSON"},
		"cut":            {text: string(whole[:len(whole)/2]), want: "end of JSON"},
		"changed":        {text: strings.Replace(string(whole), "management", "managemenx", 1), want: "checksum"},
		"newer":          {text: strings.Replace(string(whole), `"version":2`, `"version":3`, 1), want: "version 3, this program reads 2"},
		"another domain": {text: string(whole), names: workload.Names{Domain: "example.org"}, want: "example.org/allowed"},
		"a directory":    {want: "is another kind of file"},
	} {
		file := filepath.Join(t.TempDir(), "namespaces.json")
		if err := os.WriteFile(file, []byte(c.text), 0o600); name != "a directory" && err != nil {
			t.Fatal(err)
		}
		if name == "a directory" {
			file = filepath.Dir(file)
		}
		n, err := nodestatus.NewNamespaces(f.options(), c.names, file)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
		if got := n.Known().Allows("a", "management", 0); got != (c.want == "") {
			t.Errorf("%s: allowed is %t; want %t", name, got, (c.want == ""))
		}
	}
}

// TestReadFormerPermissions checks that the file of a daemon before version 2 is read: the times at
// which permissions ended are only there, and pods from before keep their pool.
func TestReadFormerPermissions(t *testing.T) {
	const former = `{"version":1,"sha256":"e75dbc8bfbe5a49ef10a633e1a28cc44fd757387d20f587ec9ee1b200e1549cc",` +
		`"annotation":"workload.openshift.io/allowed","namespaces":{"edge":{"types":["management"],"ended":{"fast":7}},"gone":{"deleted":true}}}` + "\n"
	file := filepath.Join(t.TempDir(), "namespaces.json")
	read := func(text string) (workload.Permissions, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return nodestatus.ReadPermissions(file, workload.Names{})
	}
	want := workload.Permissions{"edge": {Types: []string{"management"}, Ended: map[string]int64{"fast": 7}}, "gone": {Deleted: true}}
	if got, err := read(former); err != nil || !cmp.Equal(want, got) {
		t.Errorf("ReadPermissions = %v, %v; want %v", got, err, want)
	}
	if got, err := read(strings.Replace(former, "fast", "slow", 1)); err == nil || len(got) > 0 {
		t.Errorf("ReadPermissions of a changed file = %v, %v; want an error", got, err)
	}
}
