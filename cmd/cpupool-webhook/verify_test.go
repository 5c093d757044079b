package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVerify checks the exit code and the text of the command, for a DaemonSet with one node.
func TestVerify(t *testing.T) {
	ready := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/apis/apps/v1/namespaces/cpupoold/daemonsets/cpupoold":
			_, _ = fmt.Fprintf(w, `{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cpupoold"},
"spec": {"selector": {"matchLabels": {"a": "b"}}}, "status": {"desiredNumberScheduled": 1, "updatedNumberScheduled": 1, "numberReady": %d}}`, ready)
		case "/api/v1/namespaces/cpupoold/pods":
			pod := `{"spec": {"nodeName": "n"}}`
			_, _ = fmt.Fprintf(w, `{"apiVersion": "v1", "kind": "PodList", "items": [%s]}`, pod+strings.Repeat(", "+pod, 49))
		case "/api/v1/nodes/n":
			_, _ = fmt.Fprint(w, `{"apiVersion": "v1", "kind": "Node", "status": {"conditions": [{"type": "CPUPoolsReady", "status": "True"}]}}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(api.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"clusters": [{"name": "a", "cluster": {"server": %q}}],
"contexts": [{"name": "a", "context": {"cluster": "a"}}], "current-context": "a"}`, api.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (int, string) {
		var out, errs bytes.Buffer
		code := execute(t.Context(), &out, &errs, append([]string{"verify", "--kubeconfig", kubeconfig}, args...))
		return code, out.String() + errs.String()
	}
	if code, text := run("--daemonset=cpupoold", "--timeout=100ms"); code != 1 || !strings.Contains(text, "0 are ready") {
		t.Errorf("without a ready pod: code = %d, %s; want an error", code, text)
	}
	ready = 1
	if code, text := run("--daemonset=cpupoold"); code != 0 || text != "the installation works\n" {
		t.Errorf("with a ready pod: code = %d, %s; want success", code, text)
	}
	// client-go's own limit would need 8 s for 50 nodes.
	if code, text := run("--daemonset=cpupoold", "--condition=cpupoold", "--timeout=4s"); code != 0 {
		t.Errorf("with 50 nodes: code = %d, %s; want success", code, text)
	}
	if code, text := run("--daemonsets=cpupoold"); code != 2 || !strings.Contains(text, "unknown flag") {
		t.Errorf("with an unknown flag: code = %d, %s; want a usage error", code, text)
	}
	if code, text := run("now"); code != 2 {
		t.Errorf("with an argument: code = %d, %s; want a usage error", code, text)
	}
}
