package main

import (
	"bufio"
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
)

// TestClusterNodes checks that requests go to a daemon only while a page shows its node, that
// new daemons are found, and that --node limits the list.
func TestClusterNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var mu sync.Mutex
		running := map[string]*corev1.Pod{"a": {}, "b": {}, "c": {}}
		asking := map[string]int{}
		n := &clusterNodes{ctx: ctx, asked: make(map[string]*asked)}
		n.find = func(context.Context) (*daemons, error) {
			mu.Lock()
			defer mu.Unlock()
			return &daemons{byNode: maps.Clone(running)}, nil
		}
		n.ask = func(ctx context.Context, node string, feed *viewer.Feed) error {
			mu.Lock()
			asking[node]++
			mu.Unlock()
			feed.Put(&inspect.Status{Node: node, Problems: []inspect.Problem{{Code: "Refused"}}})
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			asking[node]--
			return ctx.Err()
		}
		n.relist(ctx)
		go n.maintain()
		check := func(when string, want map[string]int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			got := maps.Clone(asking)
			maps.DeleteFunc(got, func(_ string, n int) bool { return n == 0 })
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: queried daemons (-want +got):\n%s", when, d)
			}
		}
		check("without a page", map[string]int{})
		if n.Feed("") != n.Feed("a") || n.Feed("x") != nil {
			t.Error("first node is not a, or an unknown node has a feed")
		}
		n.Feed("b")
		check("with pages of a and b", map[string]int{"a": 1, "b": 1})
		one := 1
		if d := cmp.Diff([]viewer.Listed{{Name: "a", Problems: &one}, {Name: "b", Problems: &one}, {Name: "c"}}, n.List()); d != "" {
			t.Errorf("nodes (-want +got):\n%s", d)
		}
		mu.Lock()
		running["d"] = &corev1.Pod{}
		mu.Unlock()
		for range 8 { // the page of b is closed
			time.Sleep(25 * time.Second)
			n.Feed("a")
		}
		check("after the page of b is closed", map[string]int{"a": 1})
		if n.Feed("d") == nil {
			t.Error("new daemon has no feed; want one")
		}
		n.only = []string{"c", "d"}
		if got := slices.Collect(func(yield func(string) bool) {
			for _, l := range n.List() {
				if !yield(l.Name) {
					return
				}
			}
		}); !slices.Equal(got, n.only) {
			t.Errorf("list with --node = %q; want one node", got)
		}
		cancel()
		check("at the end", map[string]int{})
	})
}

// TestServeCluster checks that serve without a file offers the nodes with a running daemon, and
// that the page shows why a daemon does not answer.
func TestServeCluster(t *testing.T) {
	pod := func(name, node, phase string) string {
		return `{"metadata":{"name":"` + name + `","namespace":"cpupoold","labels":{"app.kubernetes.io/name":"cpupoold"}},"spec":{"nodeName":"` + node + `","containers":[{"name":"cpupoold"}]},"status":{"phase":"` + phase + `"}}`
	}
	lists := map[string]string{"/api/v1/namespaces/cpupoold/pods": "PodList\n" + strings.Join([]string{pod("x", "edge-2", "Running"), pod("y", "edge-1", "Running"), pod("z", "edge-3", "Pending")}, ",")}
	config := apiServer(t, lists)
	out, w := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		o := &serveOptions{listen: "127.0.0.1:0", daemonFlags: daemonFlags{namespace: "cpupoold", selector: "app.kubernetes.io/name=cpupoold"}}
		o.kubeconfig = config
		ended <- o.run(ctx, streams{strings.NewReader(""), w, w})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	state := got(t, strings.TrimSpace(line)+"state?node=edge-2&after=0")
	for _, want := range []string{`"nodes":[{"name":"edge-1"},{"name":"edge-2"}]`, "in pod cpupoold/x", "asked again every 5s"} {
		if !strings.Contains(state, want) {
			t.Errorf("the state lacks %q: %.1000s", want, state)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	lists["/api/v1/namespaces/cpupoold/pods"] = "PodList\n" + pod("z", "edge-3", "Pending")
	if code, _, errs := run("", "serve", "--kubeconfig", config); code != exitError || !strings.Contains(errs, "no daemon's pod runs (app.kubernetes.io/name=cpupoold in namespace cpupoold)") {
		t.Errorf("without a daemon: exit code %d, errors %q", code, errs)
	}
	if code, _, errs := run("", "serve", "--kubeconfig", config, "--node", "edge-3"); code != exitError || !strings.Contains(errs, "node edge-3: no pod of a daemon runs there") {
		t.Errorf("with a node without a daemon: exit code %d, errors %q", code, errs)
	}
}
