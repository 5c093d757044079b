package webhook

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestWorkloads checks which objects are read, and that reads are limited.
func TestWorkloads(t *testing.T) {
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if r.URL.Path != "/apis/apps/v1/namespaces/ops/statefulsets/agent" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"spec":{}}`))
	}))
	defer server.Close()
	w, err := newWorkloads(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kind, name, want string
		fails            bool
	}{
		{"StatefulSet", "agent", `{"spec":{}}`, false},
		{"Deployment", "agent", "", true}, // not found
		{"StatefulSet", "../../pods/a", "", true},
		{"Job", "agent", "", false},
	} {
		got, err := w.Get(t.Context(), "ops", c.kind, c.name)
		if string(got) != c.want || (err != nil) != c.fails {
			t.Errorf("Get(%s %s) = %s, %v; want %s", c.kind, c.name, got, err, c.want)
		}
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("requests = %d; want 2", n)
	}
	began, failed := time.Now(), atomic.Int32{}
	var all sync.WaitGroup
	for range 4 * workloadBurst {
		all.Go(func() {
			if _, err := w.Get(t.Context(), "ops", "StatefulSet", "agent"); err != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	// The rate allows more while the requests run. A slow machine needs more time for them.
	most := workloadBurst + workloadQPS*int32(time.Since(began)/time.Second+2)
	if n := requests.Load(); n > most || failed.Load() == 0 {
		t.Errorf("requests = %d, %d of the reads failed; want at most %d requests", n, failed.Load(), most)
	}
}
