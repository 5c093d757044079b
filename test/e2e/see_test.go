//go:build e2e

package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
)

// see checks the output of kubectl's plugin in the cluster, whose node has the Deployment of manage and the pods
// of fill.
func see(t *testing.T, c *cluster) {
	t.Run("nodes", func(t *testing.T) { c.seeNodes(t) })
	t.Run("describe", func(t *testing.T) {
		text := c.plugin(t, "describe node "+nodeName)
		for _, want := range []string{"ready", "ops/monitor-", "apps/whole-2", "enforce"} { // the daemon reports the last one
			if !strings.Contains(text, want) {
				t.Errorf("the description does not tell of %q:\n%s", want, text)
			}
		}
	})
	t.Run("top", func(t *testing.T) {
		text := c.plugin(t, "top --owners "+nodeName)
		for _, want := range []string{"management", "shared", "guaranteed", "apps/whole-2"} {
			if !strings.Contains(text, want) {
				t.Errorf("output lacks %q:\n%s", want, text)
			}
		}
	})
	t.Run("drawing", func(t *testing.T) {
		if svg := c.plugin(t, "serve --svg - --node "+nodeName); !strings.HasPrefix(svg, "<svg") || !strings.Contains(svg, "owned by apps/whole-2/") {
			t.Errorf("drawing = %.2000s; want an SVG with apps/whole-2", svg)
		}
	})
	t.Run("serve", func(t *testing.T) { c.watch(t) })
	t.Run("check", func(t *testing.T) { checkCluster(t, c) })
}

// plugin runs a command of kubectl's plugin, as kubectl finds it.
func (c *cluster) plugin(t *testing.T, command string) string {
	t.Helper()
	return c.kubectl(t, c.pluginLine(t, command))
}

func (c *cluster) pluginLine(t *testing.T, command string) string {
	t.Helper()
	return c.pluginPath(t) + "exec kubectl cpupool " + command
}

// pluginPath lets a line of a shell find the plugin.
func (c *cluster) pluginPath(t *testing.T) string {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	return "PATH='" + bin + "':$PATH; "
}

func (c *cluster) seeNodes(t *testing.T) {
	var document overview.Document
	if err := json.Unmarshal([]byte(c.plugin(t, "nodes -o json")), &document); err != nil {
		t.Fatal(err)
	}
	if len(document.Nodes) != 1 || document.Nodes[0].Name != nodeName || document.Nodes[0].Health != "ready" {
		t.Fatalf("nodes = %+v; want one that is ready", document.Nodes)
	}
	requested := map[string]int64{}
	for _, p := range document.Nodes[0].Pools {
		requested[p.Name] = p.Requested
	}
	// Two pods of the Deployment and the webhook's; whole-2 and late.
	if requested["management"] < 1000 || requested["guaranteed"] != 3000 {
		t.Errorf("requests of the pools = %v; want at least 1000 for management, 3000 guaranteed", requested)
	}
}

// serve starts the plugin's page on this machine until the end of the test, and returns its address.
func (c *cluster) serve(t *testing.T, flags string) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	serve := c.plane.command(ctx, c.pluginLine(t, "serve --listen 127.0.0.1:0 "+flags))
	out, err := serve.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = serve.Wait() // ended by the signal
	})
	address, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("serve ended: %v", err)
	}
	return strings.TrimSpace(address)
}

// watch follows the node as a browser does while a pod starts and stops.
func (c *cluster) watch(t *testing.T) {
	address := c.serve(t, "--node "+nodeName)
	const name = "seen"
	shows := func(want bool) func(context.Context) error {
		return func(ctx context.Context) error {
			s, err := stateAt(ctx, address)
			if err != nil {
				return err
			}
			if there := slices.ContainsFunc(s.Containers, func(c inspect.Container) bool { return c.Pod == name }); there != want {
				return fmt.Errorf("pod %s is there: %v", name, there)
			}
			return nil
		}
	}
	eventually(t, "the page has the node", shows(false))
	c.make(t, "apps", name, nil, "100m")
	eventually(t, "the page shows the pod", shows(true))
	eventually(t, "the page explains it", func(ctx context.Context) error { return explainedAt(ctx, address, name) })
	if err := c.CoreV1().Pods("apps").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page shows it no longer", shows(false))
}

// stateAt returns the state that a page of serve gets.
func stateAt(ctx context.Context, address string) (*inspect.Status, error) {
	var state struct {
		Status *inspect.Status `json:"status"`
		Error  string          `json:"error"`
	}
	if err := getJSON(ctx, address+"state", &state); err != nil {
		return nil, err
	}
	if state.Status == nil || state.Error != "" {
		return nil, fmt.Errorf("no status, error %q", state.Error)
	}
	return state.Status, nil
}

func getJSON(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	text, err := io.ReadAll(w.Body)
	if err == nil && json.Unmarshal(text, into) != nil {
		err = fmt.Errorf("%s: %.200s", w.Status, text)
	}
	return err
}
