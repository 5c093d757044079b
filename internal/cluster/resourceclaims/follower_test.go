package resourceclaims_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/cpupoold/cpupoold/internal/cluster/resourceclaims"
	"github.com/cpupoold/cpupoold/internal/cpuclaim"
)

// server is an API server without a network. It has the resources of resource.k8s.io/v1, or none.
type server struct {
	t         *testing.T
	mu        sync.Mutex
	absent    bool
	forbidden bool
	objects   map[string][]any // by resource
	watches   map[string][]*io.PipeWriter
	requests  int
}

func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	resource, query := path.Base(r.URL.Path), r.URL.Query()
	s.requests++
	switch {
	case s.absent:
		return s.answer(http.StatusNotFound, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 404, Reason: metav1.StatusReasonNotFound}), nil
	case resource == "v1":
		list := metav1.APIResourceList{GroupVersion: "resource.k8s.io/v1"}
		for _, name := range []string{"deviceclasses", "resourceclaims", "resourceclaimtemplates", "resourceslices"} {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
		}
		return s.answer(http.StatusOK, list), nil
	case s.forbidden:
		return s.answer(http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Code: 403, Reason: metav1.StatusReasonForbidden, Message: resource + " is forbidden"}), nil
	case !query.Has("sendInitialEvents"):
		s.t.Errorf("request %s?%s; want a stream", r.URL.Path, r.URL.RawQuery)
	}
	reader, writer := io.Pipe()
	s.watches[resource] = append(s.watches[resource], writer)
	go s.stream(writer, resource, slices.Clone(s.objects[resource]))
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader}, nil
}

// stream sends all objects, and the bookmark at their end.
func (s *server) stream(w io.Writer, resource string, objects []any) {
	for _, o := range objects {
		s.event(w, "ADDED", o)
	}
	kind := map[string]string{"deviceclasses": "DeviceClass", "resourceclaims": "ResourceClaim", "resourceclaimtemplates": "ResourceClaimTemplate"}[resource]
	s.event(w, "BOOKMARK", map[string]any{"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": map[string]any{
		"resourceVersion": "1", "annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	}})
}

func (s *server) event(w io.Writer, event string, object any) {
	data, err := json.Marshal(map[string]any{"type": event, "object": object})
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.t.Error(err)
	}
}

func (s *server) answer(code int, object any) *http.Response {
	data, err := json.Marshal(object)
	if err != nil {
		s.t.Error(err)
	}
	return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}
}

// send sends an event to the watches of a resource.
func (s *server) send(event, resource string, object any) {
	s.mu.Lock()
	watches := slices.Clone(s.watches[resource])
	s.mu.Unlock()
	for _, w := range watches {
		s.event(w, event, object)
	}
}

func (s *server) set(change func(*server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// object decodes an object of resource.k8s.io/v1.
func object(t *testing.T, kind, name, spec string) any {
	t.Helper()
	var o map[string]any
	text := fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: %s, metadata: {namespace: ran, name: %s, resourceVersion: '2', annotations: {a: b}}, spec: %s}", kind, name, spec)
	if err := yaml.Unmarshal([]byte(text), &o); err != nil {
		t.Fatal(err)
	}
	if kind == "DeviceClass" {
		delete(o["metadata"].(map[string]any), "namespace")
	}
	return o
}

const (
	ofMine = "{devices: {requests: [{name: nic, exactly: {deviceClassName: nic}}, {name: cpus, exactly: {deviceClassName: mine}}]}}"
	ofOurs = "{devices: {requests: [{name: cpus, exactly: {deviceClassName: exclusive-cpus.cpupoold.io}}]}}"
)

func newServer(t *testing.T) *server {
	t.Helper()
	return &server{t: t, watches: map[string][]*io.PipeWriter{}, objects: map[string][]any{
		"resourceclaims":         {object(t, "ResourceClaim", "du", ofMine)},
		"resourceclaimtemplates": {object(t, "ResourceClaimTemplate", "du", "{spec: "+ofOurs+"}")},
		"deviceclasses": {
			object(t, "DeviceClass", "mine", `{extendedResourceName: example.com/cpus, selectors: [{cel: {expression: 'device.driver == "cpu.cpupoold.io"'}}]}`),
			object(t, "DeviceClass", "nic", `{selectors: [{cel: {expression: 'device.driver == "nic"'}}]}`),
		},
	}}
}

// follower is a follower that runs, with its log and its metric.
type follower struct {
	*resourceclaims.Follower
	log      *bytes.Buffer
	registry *prometheus.Registry
}

func follow(t *testing.T, s *server) follower {
	t.Helper()
	f := follower{log: &bytes.Buffer{}, registry: prometheus.NewRegistry()}
	var err error
	f.Follower, err = resourceclaims.New(resourceclaims.Options{REST: &rest.Config{Host: "http://cluster", Transport: s}, Registry: f.registry, Log: slog.New(slog.NewTextHandler(f.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() { _ = f.Start(t.Context()) })
	t.Cleanup(func() { // after the end of the context
		s.set(func(s *server) {
			for w := range maps.Values(s.watches) {
				for _, w := range w {
					_ = w.Close()
				}
			}
		})
		done.Wait()
	})
	return f
}

// isKnown returns the value of the metric.
func (f follower) isKnown(t *testing.T) float64 {
	t.Helper()
	families, err := f.registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "cpupool_webhook_claims_known" {
		t.Fatalf("metrics are %v, %v", families, err)
	}
	m := families[0].GetMetric()[0]
	return m.GetGauge().GetValue()
}

func claim(name string) *corev1.PodResourceClaim {
	return &corev1.PodResourceClaim{Name: "e", ResourceClaimName: &name}
}

func template(name string) *corev1.PodResourceClaim {
	return &corev1.PodResourceClaim{Name: "e", ResourceClaimTemplateName: &name}
}

// TestUses checks the uses of claims, templates and extended resources, and that later events count.
func TestUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		f := follow(t, s)
		if use := f.UseOf("ran", claim("du"), ""); use != cpuclaim.Unknown {
			t.Errorf("use before the start is %d; want unknown", use)
		}
		<-f.Known()
		synctest.Wait()
		for name, c := range map[string]struct{ got, want cpuclaim.Use }{
			"claim":              {f.UseOf("ran", claim("du"), ""), cpuclaim.CPUs},
			"its CPUs":           {f.UseOf("ran", claim("du"), "cpus"), cpuclaim.CPUs},
			"its NIC":            {f.UseOf("ran", claim("du"), "nic"), cpuclaim.Other},
			"another namespace":  {f.UseOf("default", claim("du"), ""), cpuclaim.Unknown},
			"template":           {f.UseOf("ran", template("du"), ""), cpuclaim.CPUs},
			"neither":            {f.UseOf("ran", &corev1.PodResourceClaim{Name: "e"}, ""), cpuclaim.Unknown},
			"resource":           {f.UseOfResource("example.com/cpus"), cpuclaim.CPUs},
			"resource of NIC":    {f.UseOfResource("deviceclass.resource.kubernetes.io/nic"), cpuclaim.Other},
			"resource of plugin": {f.UseOfResource("nvidia.com/gpu"), cpuclaim.Other},
			"resource without":   {f.UseOfResource("cpu"), cpuclaim.Other},
		} {
			if c.got != c.want {
				t.Errorf("%s: use %d; want %d", name, c.got, c.want)
			}
		}
		if known := f.isKnown(t); known != 1 {
			t.Errorf("metric is %g; want 1", known)
		}

		s.send("ADDED", "resourceclaimtemplates", object(t, "ResourceClaimTemplate", "later", "{spec: "+ofMine+"}"))
		s.send("DELETED", "resourceclaims", object(t, "ResourceClaim", "du", ofMine))
		s.send("MODIFIED", "deviceclasses", object(t, "DeviceClass", "mine", "{}"))
		synctest.Wait()
		if added, deleted, changed := f.UseOf("ran", template("later"), ""), f.UseOf("ran", claim("du"), ""), f.UseOfResource("example.com/cpus"); added != cpuclaim.Unclear || deleted != cpuclaim.Unknown || changed != cpuclaim.Other {
			t.Errorf("after events: use %d of a new template, %d of a deleted claim, %d of a resource; want unclear, unknown, other", added, deleted, changed)
		}
	})
}

// TestAbsent checks that no claim has CPUs while the API server has no resource.k8s.io/v1, and that the follower notices an upgrade.
func TestAbsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.absent = true
		f := follow(t, s)
		<-f.Known()
		if use, resource := f.UseOf("ran", claim("du"), ""), f.UseOfResource("example.com/cpus"); use != cpuclaim.Other || resource != cpuclaim.Other || f.isKnown(t) != 1 {
			t.Errorf("without the API: use %d, of a resource %d, metric %g; want other, other, 1", use, resource, f.isKnown(t))
		}
		time.Sleep(10 * time.Minute)
		if got := strings.Count(f.log.String(), "does not have resourceclaims of resource.k8s.io/v1"); got != 1 {
			t.Errorf("the log has it %d times; want once:\n%s", got, f.log)
		}
		s.set(func(s *server) { s.absent = false })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if use := f.UseOf("ran", claim("du"), ""); use != cpuclaim.CPUs {
			t.Errorf("after an upgrade: use %d; want CPUs", use)
		}
		s.set(func(s *server) { s.absent = true })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if use := f.UseOf("ran", claim("du"), ""); use != cpuclaim.Other {
			t.Errorf("after a downgrade: use %d; want other", use)
		}
	})
}

// TestForbidden checks that all claims are unknown without the right to list them, that the start goes on, and that
// the follower notices the right.
func TestForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.forbidden = true
		began := time.Now()
		f := follow(t, s)
		<-f.Known()
		if waited := time.Since(began); waited != 15*time.Second {
			t.Errorf("the start waited %v; want 15s", waited)
		}
		if use, resource := f.UseOf("ran", claim("du"), ""), f.UseOfResource("example.com/cpus"); use != cpuclaim.Unknown || resource != cpuclaim.Other || f.isKnown(t) != 0 {
			t.Errorf("without the right: use %d, of a resource %d, metric %g; want unknown, other, 0", use, resource, f.isKnown(t))
		}
		time.Sleep(time.Hour)
		n := 0
		s.set(func(s *server) { n = s.requests })
		if n > 1500 {
			t.Errorf("%d requests in an hour; want 1500 at most", n)
		}
		if got := strings.Count(f.log.String(), "the webhook may not list resourceclaims,"); got != 1 {
			t.Errorf("the log has it %d times; want once:\n%s", got, f.log)
		}
		s.set(func(s *server) { s.forbidden = false })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if use := f.UseOf("ran", claim("du"), ""); use != cpuclaim.CPUs || f.isKnown(t) != 1 {
			t.Errorf("with the right: use %d, metric %g; want CPUs, 1", use, f.isKnown(t))
		}
	})
}

// TestMemory checks the memory for claims of which each has 10 KiB.
func TestMemory(t *testing.T) {
	const number, most = 1000, 1024 // bytes for each claim
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s := newServer(t)
	s.objects["resourceclaims"] = nil
	for i := range number {
		o := object(t, "ResourceClaim", fmt.Sprintf("claim-of-a-pod-%05d", i), ofOurs).(map[string]any)
		o["status"] = map[string]any{"allocation": map[string]any{"devices": map[string]any{"config": []any{map[string]any{
			"source": "FromClaim", "opaque": map[string]any{"driver": "nic", "parameters": map[string]any{"text": strings.Repeat("x", 10<<10)}},
		}}}}}
		s.objects["resourceclaims"] = append(s.objects["resourceclaims"], o)
	}
	before := heap()
	f := follow(t, s)
	<-f.Known()
	if use := f.UseOf("ran", claim("claim-of-a-pod-00999"), ""); use != cpuclaim.CPUs {
		t.Fatalf("use of the last claim is %d; want CPUs", use)
	}
	got := (int64(heap()) - int64(before)) / number
	if got > most {
		t.Errorf("a claim takes %d bytes; want %d at most", got, most)
	}
	t.Logf("a claim takes %d bytes", got)
	runtime.KeepAlive(s)
}
