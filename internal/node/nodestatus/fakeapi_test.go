package nodestatus_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
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

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
)

// fakeAPI is an API server with one Node and its events. It applies patches with the code of
// Kubernetes, formats quantities as the API server does, and starts watches from the current
// state.
type fakeAPI struct {
	t      *testing.T
	server *httptest.Server
	dir    string // of the credentials

	mu           sync.Mutex
	changed      chan struct{} // closed and replaced at each change of the fields below
	node         *corev1.Node
	tokens       []string
	refuse       map[string]int // status code by "METHOD subresource"
	refuseAdding int            // status code for patches that add taints
	retryAfter   string         // header of refusals; set before a Runner starts
	watchers     int
	hang         bool          // requests get no answer
	gate         chan struct{} // each event takes one value from it; nil does not block
	version      int
	expire       int               // watches that end with 410
	cut          bool              // watches end after the first state
	silent       bool              // watches send nothing after the first state
	calls        map[string]int    // requests by "METHOD resource"
	patches      []json.RawMessage // of the Node
	events       map[string]*eventsv1.Event
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{
		t: t, dir: t.TempDir(), changed: make(chan struct{}), tokens: []string{"first"}, version: 100,
		refuse: map[string]int{}, calls: map[string]int{}, events: map[string]*eventsv1.Event{},
	}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	t.Cleanup(func() {
		f.server.CloseClientConnections()
		f.server.Close()
	})
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	f.write("ca.crt", string(ca))
	f.write("token", "first\n")
	f.create()
	return f
}

func (f *fakeAPI) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fakeAPI) access() *nodestatus.Access {
	f.t.Helper()
	host, port, _ := strings.Cut(strings.TrimPrefix(f.server.URL, "https://"), ":")
	a, err := nodestatus.InCluster(host, port, f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	return a
}

// do changes the state under the lock.
func (f *fakeAPI) do(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
	close(f.changed)
	f.changed = make(chan struct{})
}

// create creates the Node as a kubelet does.
func (f *fakeAPI) create(taints ...corev1.Taint) {
	f.do(func() {
		f.version++
		f.node = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: types.UID(strconv.Itoa(f.version)), ResourceVersion: strconv.Itoa(f.version)},
			Spec:       corev1.NodeSpec{Taints: taints},
		}
		f.node.Status.Capacity = corev1.ResourceList{"cpu": quantity("12"), "example.com/gpu": quantity("2")}
		f.node.Status.Allocatable = corev1.ResourceList{"cpu": quantity("11500m"), "example.com/gpu": quantity("2")}
		f.node.Status.Conditions = []corev1.NodeCondition{{Type: "Ready", Status: "True"}}
	})
}

// edit changes the Node as another client does.
func (f *fakeAPI) edit(change func(*corev1.Node)) {
	f.do(func() {
		f.node = f.node.DeepCopy()
		change(f.node)
		f.version++
		f.node.ResourceVersion = strconv.Itoa(f.version)
	})
}

func (f *fakeAPI) delete() { f.do(func() { f.node = nil }) }

// wait waits until a condition holds.
func (f *fakeAPI) wait(what string, holds func() bool) {
	f.t.Helper()
	late := time.After(nodefixture.Timeout)
	for {
		f.mu.Lock()
		changed, ok := f.changed, holds()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-time.After(10 * time.Millisecond): // for conditions outside the server
		case <-late:
			f.mu.Lock()
			defer f.mu.Unlock()
			text, _ := json.MarshalIndent(f.node, "", " ")
			f.t.Fatalf("timed out: %s; calls %v; node %s", what, f.calls, text)
		}
	}
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	hang := f.hang
	known := slices.Contains(f.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		return
	case hang:
		<-r.Context().Done()
		return
	case !known:
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return
	}
	name, sub, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/")
	call := r.Method + " " + cmpOr(sub, "node")
	switch {
	case strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/v1/namespaces/"):
		call = r.Method + " event"
	case strings.HasPrefix(r.URL.Path, "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies/"):
		call = r.Method + " topology"
	case r.URL.Path == "/api/v1/nodes" && r.URL.Query().Get("watch") == "true":
		call = "WATCH node"
	}
	f.mu.Lock()
	code, gate := f.refuse[call], f.gate
	f.mu.Unlock()
	f.do(func() { f.calls[call]++ })
	if gate != nil && strings.HasSuffix(call, " event") {
		select {
		case <-gate:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case code != 0:
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		refuse(w, code, "refused by the test")
	case call == "WATCH node":
		f.watch(w, r)
	case call == "GET node" && name == "n1":
		f.mu.Lock()
		is := f.node
		f.mu.Unlock()
		if is == nil {
			refuse(w, http.StatusNotFound, "no such node")
			return
		}
		answer(w, is)
	case r.Method == "PATCH" && (sub == "" || sub == "status") && name == "n1":
		f.patch(w, r, sub, body)
	case strings.HasSuffix(call, " event"):
		f.event(w, r, body)
	default:
		f.t.Errorf("unexpected request %s %s", r.Method, r.URL)
		refuse(w, http.StatusNotFound, "no such path")
	}
}

func cmpOr(s, instead string) string {
	if s == "" {
		return instead
	}
	return s
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: int32(code), Message: message})
}

// watch sends the Node and its changes, as the API server does without a resource version.
func (f *fakeAPI) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	seconds, err := strconv.Atoi(q.Get("timeoutSeconds"))
	if err != nil || q.Get("fieldSelector") != "metadata.name=n1" || q.Has("resourceVersion") {
		f.t.Errorf("watch %s", r.URL)
	}
	w.Header().Set("Content-Type", "application/json")
	flush := func() { w.(http.Flusher).Flush() }
	flush()
	f.do(func() { f.watchers++ })
	defer f.do(func() { f.watchers-- })
	send := func(kind string, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
		flush()
	}
	end := time.After(time.Duration(seconds) * time.Second)
	var sent *corev1.Node
	for first := true; ; first = false {
		f.mu.Lock()
		is, changed, expire, silent := f.node, f.changed, f.expire > 0, f.silent
		if expire {
			f.expire--
		}
		f.mu.Unlock()
		switch {
		case expire:
			send("ERROR", metav1.Status{Code: http.StatusGone, Reason: "Expired", Message: "too old resource version"})
			return
		case silent && !first || is == sent:
		case is == nil:
			send("DELETED", sent)
			sent = nil
		case sent == nil || sent.UID != is.UID:
			if sent != nil {
				send("DELETED", sent)
			}
			send("ADDED", is)
			sent = is
		default:
			send("MODIFIED", is)
			sent = is
		}
		if first {
			send("BOOKMARK", map[string]any{"metadata": map[string]any{"resourceVersion": "100"}})
		}
		f.mu.Lock()
		cut := f.cut
		f.mu.Unlock()
		if cut {
			return
		}
		select {
		case <-changed:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// patch changes the status of the Node, or everything else. It reads and writes under one
// lock: the real server answers 409 to a change in between, or retries a patch without a
// version.
func (f *fakeAPI) patch(w http.ResponseWriter, r *http.Request, sub string, body []byte) {
	if r.URL.Query().Get("fieldManager") != "cpupoold" {
		f.t.Errorf("field manager %q", r.URL.Query().Get("fieldManager"))
	}
	var result *corev1.Node
	var failure *refusal
	f.do(func() {
		if result, failure = f.patched(r.Header.Get("Content-Type"), sub, body); failure != nil {
			return
		}
		f.version++
		result.ResourceVersion = strconv.Itoa(f.version)
		f.node = result
		f.patches = append(f.patches, slices.Clone(body))
	})
	if failure != nil {
		refuse(w, failure.code, failure.message)
		return
	}
	answer(w, result)
}

// refusal is an answer with a status other than success.
type refusal struct {
	code    int
	message string
}

// patched returns the Node after a patch. The caller holds the lock.
func (f *fakeAPI) patched(kind, sub string, body []byte) (*corev1.Node, *refusal) {
	is := f.node
	if is == nil {
		return nil, &refusal{http.StatusNotFound, `nodes "n1" not found`}
	}
	var precondition struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	old, err := json.Marshal(is)
	if err == nil {
		err = json.Unmarshal(body, &precondition)
	}
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, err.Error()}
	}
	if v := precondition.Metadata.ResourceVersion; v != "" && v != is.ResourceVersion {
		return nil, &refusal{http.StatusConflict, "the object has been modified"}
	}
	var patched []byte
	switch kind {
	case "application/strategic-merge-patch+json":
		patched, err = strategicpatch.StrategicMergePatch(old, body, corev1.Node{})
	case "application/merge-patch+json":
		var doc, change any
		if err = json.Unmarshal(old, &doc); err == nil {
			err = json.Unmarshal(body, &change)
		}
		if err == nil {
			patched, err = json.Marshal(merge(doc, change))
		}
	default:
		return nil, &refusal{http.StatusUnsupportedMediaType, kind}
	}
	next := new(corev1.Node)
	if err == nil {
		err = json.Unmarshal(patched, next)
	}
	if err != nil {
		return nil, &refusal{http.StatusUnprocessableEntity, err.Error()}
	}
	result := is.DeepCopy()
	if sub == "status" {
		result.Status = next.Status
		result.ManagedFields = withOwner(result.ManagedFields, body)
		return result, nil
	}
	result.Spec = next.Spec
	if f.refuseAdding != 0 && len(result.Spec.Taints) >= len(is.Spec.Taints) {
		return nil, &refusal{f.refuseAdding, "no taint may be added"}
	}
	return result, nil
}

// merge applies a JSON merge patch (RFC 7386).
func merge(doc, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	d, ok := doc.(map[string]any)
	if !ok {
		d = map[string]any{}
	}
	d = maps.Clone(d)
	for key, value := range p {
		if value == nil {
			delete(d, key)
		} else {
			d[key] = merge(d[key], value)
		}
	}
	return d
}

// withOwner records cpupoold as the manager of the resources in a patch.
func withOwner(was []metav1.ManagedFieldsEntry, patch []byte) []metav1.ManagedFieldsEntry {
	fields := map[string]any{}
	if len(was) > 0 {
		_ = json.Unmarshal(was[0].FieldsV1.GetRawBytes(), &fields)
	}
	var p struct {
		Status struct {
			Capacity map[string]*string `json:"capacity"`
		} `json:"status"`
	}
	_ = json.Unmarshal(patch, &p)
	capacity := map[string]any{}
	for name, value := range p.Status.Capacity {
		if capacity["f:"+name] = nil; value != nil {
			capacity["f:"+name] = map[string]any{}
		}
	}
	raw, _ := json.Marshal(merge(fields, map[string]any{"f:status": map[string]any{"f:capacity": capacity}}))
	return []metav1.ManagedFieldsEntry{{Manager: "cpupoold", Subresource: "status", FieldsV1: metav1.NewFieldsV1(string(raw))}}
}

// event creates an event, or updates its series.
func (f *fakeAPI) event(w http.ResponseWriter, r *http.Request, body []byte) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/apis/events.k8s.io/v1/namespaces/"), "/")
	e := new(eventsv1.Event)
	if err := json.Unmarshal(body, e); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.Method == "PATCH" {
		var only map[string]any
		_ = json.Unmarshal(body, &only)
		if _, ok := only["series"]; !ok || len(only) != 1 || e.Series.Count < 2 {
			refuse(w, http.StatusUnprocessableEntity, "only series can change, and counts from 2: "+string(body))
			return
		}
		key, found := parts[0]+"/"+parts[2], false
		f.do(func() {
			if old := f.events[key]; old != nil {
				found, old.Series = true, e.Series
			}
		})
		if !found {
			refuse(w, http.StatusNotFound, "no such event")
			return
		}
		answer(w, e)
		return
	}
	switch {
	case e.Name == "" || len(e.Name) > 253 || e.Name != strings.ToLower(e.Name) || e.Namespace != parts[0] || e.Regarding.Kind == "Pod" && e.Regarding.Namespace != parts[0]:
		refuse(w, http.StatusUnprocessableEntity, fmt.Sprintf("event %q in %q", e.Name, e.Namespace))
	case e.EventTime.IsZero() || e.ReportingController == "" || e.ReportingInstance == "" || e.Action == "" || e.Reason == "" || e.Type != "Warning" || len(e.Note) > 1024:
		refuse(w, http.StatusUnprocessableEntity, "event is incomplete: "+string(body))
	default:
		exists := false
		f.do(func() {
			if exists = f.events[e.Namespace+"/"+e.Name] != nil; !exists {
				f.events[e.Namespace+"/"+e.Name] = e
			}
		})
		if exists {
			refuse(w, http.StatusConflict, "the event exists")
			return
		}
		w.WriteHeader(http.StatusCreated)
		answer(w, e)
	}
}

// TestFakeAPIConcurrentUpdates checks that concurrent edits and patches lose no update.
// Otherwise tests could blame the Runner for an update that the fake lost.
func TestFakeAPIConcurrentUpdates(t *testing.T) {
	const each = 100
	f := newFakeAPI(t)
	var both sync.WaitGroup
	both.Go(func() {
		for i := range each {
			f.edit(func(n *corev1.Node) {
				if n.Labels == nil {
					n.Labels = map[string]string{}
				}
				n.Labels[fmt.Sprintf("label-%d", i)] = ""
			})
		}
	})
	both.Go(func() {
		for i := range each {
			body := fmt.Sprintf(`{"status":{"capacity":{"example.com/r%d":"1"}}}`, i)
			r := httptest.NewRequest(http.MethodPatch, "/api/v1/nodes/n1/status?fieldManager=cpupoold", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/merge-patch+json")
			r.Header.Set("Authorization", "Bearer first")
			answer := httptest.NewRecorder()
			if f.ServeHTTP(answer, r); answer.Code != http.StatusOK {
				t.Errorf("patch %d: %d %s; want %d", i, answer.Code, answer.Body, http.StatusOK)
			}
		}
	})
	both.Wait()
	if labels, resources := len(f.node.Labels), len(f.node.Status.Capacity); labels != each || resources != each+2 {
		t.Errorf("%d labels and %d resources; want %d and %d", labels, resources, each, each+2)
	}
}
