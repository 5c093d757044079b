//go:build fleet

package fleet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/capacity"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
)

const (
	nodes = 300
	taint = "cpupoold.io/starting"
)

// fleet are the nodes of a cluster.
type fleet struct {
	server *apiServer
	nodes  []*simulated
}

// simulated is a node with the daemon's code for it.
type simulated struct {
	name   string
	meter  *meter
	runner *nodestatus.Runner
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	var tokens []string
	for i := range nodes {
		tokens = append(tokens, fmt.Sprintf("token-%d,%s,%s,\"system:serviceaccounts,system:serviceaccounts:cpupoold\"\n", i, daemons, nodeName(i)))
	}
	f := &fleet{server: startServer(t, tokens)}
	all, err := rights("../../deploy/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range all {
		if _, err := f.server.do("POST", r.path, "application/yaml", r.body); err != nil {
			t.Fatal(err)
		}
	}
	for i := range nodes {
		n := &simulated{name: nodeName(i), meter: newMeter(t, f.server.Address)}
		f.nodes = append(f.nodes, n)
		f.register(t, n.name)
		file := filepath.Join(t.TempDir(), "kubeconfig")
		write(t, file, fmt.Sprintf(kubeconfig, n.meter.listener.Addr(), filepath.Join(f.server.Dir, "apiserver.crt"), i))
		access, err := nodestatus.Kubeconfig(file)
		if err != nil {
			t.Fatal(err)
		}
		n.runner = nodestatus.New(nodestatus.Options{
			Name: n.name, Access: access, Record: file + ".none", Version: "test", Log: slog.New(slog.DiscardHandler),
		})
		n.runner.Show(shown(i, 4000))
	}
	return f
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d.fleet.example.com", i) }

const kubeconfig = `current-context: c
clusters: [{name: c, cluster: {server: "https://%s", certificate-authority: %s}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: token-%d}}]
`

// register makes a Node as a kubelet does, of the usual size: 50 images are the largest
// part.
func (f *fleet) register(t *testing.T, name string) {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q,"labels":{"kubernetes.io/hostname":%q}},
		"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, name, name, taint)
	if _, err := f.server.do("POST", "/api/v1/nodes?fieldManager=kubelet", "application/json", body); err != nil {
		t.Fatal(err)
	}
	f.report(t, name)
}

// report writes a Node's status as a kubelet does every five minutes.
func (f *fleet) report(t *testing.T, name string) {
	t.Helper()
	var images []map[string]any
	for i := range 50 {
		image := fmt.Sprintf("registry.example.com/group/application-%d", i)
		images = append(images, map[string]any{"names": []string{fmt.Sprintf("%s@sha256:%064d", image, i), image + ":v1.2.3"}, "sizeBytes": 123456789 + i})
	}
	var conditions []map[string]any
	for _, kind := range []string{"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} {
		conditions = append(conditions, map[string]any{
			"type": kind, "status": "False", "reason": "KubeletHasNoSuchProblem", "message": "kubelet has no such problem",
			"lastHeartbeatTime": time.Now().UTC().Format(time.RFC3339), "lastTransitionTime": "2026-01-01T00:00:00Z",
		})
	}
	amounts := map[string]string{"cpu": "32", "memory": "131072000Ki", "pods": "250", "ephemeral-storage": "500Gi"}
	body, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.server.do("PATCH", "/api/v1/nodes/"+name+"/status?fieldManager=kubelet", "application/strategic-merge-patch+json", string(body)); err != nil {
		t.Fatal(err)
	}
}

// shown returns the state of a node without problems, with 20 counted pods.
func shown(i int, shared int64) *nodestatus.State {
	s := &nodestatus.State{
		Resources: true,
		Pools: []capacity.Pool{
			{Resource: "openshift.io/shared-cpus", Milli: shared},
			{Resource: "openshift.io/guaranteed-cpus", Milli: 24000},
			{Resource: "management.workload.openshift.io/cores", Milli: 32000},
		},
		Condition: &nodestatus.Condition{Ready: true, Reason: "AsPlanned", Message: "containers and units are on the CPUs of their pools"},
		Taint:     taint,
		Verified:  true,
	}
	for p := range 20 {
		s.Pods = append(s.Pods, nodestatus.Pod{UID: fmt.Sprintf("%d-%d", i, p), Resource: "openshift.io/shared-cpus", Containers: []nodestatus.Container{
			{Name: "app", Resource: "openshift.io/shared-cpus", Milli: 100, Presumed: true},
		}})
	}
	return s
}

// run lets all daemons work, until the test is over. They start within a minute.
func (f *fleet) run(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
	})
	next := time.NewTicker(45 * time.Second / nodes)
	defer next.Stop()
	for _, n := range f.nodes {
		all.Go(func() { n.runner.Run(ctx) })
		<-next.C
	}
}

// allShow waits until each Node shows an amount of the shared pool, and has no taint.
func (f *fleet) allShow(t *testing.T, shared string) {
	t.Helper()
	eventually(t, "all Nodes show their pools", func() error {
		data, err := f.server.do("GET", "/api/v1/nodes?resourceVersion=0", "", "")
		if err != nil {
			return err
		}
		var list struct {
			Items []struct {
				Spec   struct{ Taints []struct{ Key string } }
				Status struct {
					Allocatable map[string]string
					Conditions  []struct{ Type, Status string }
				}
			}
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return err
		}
		done := 0
		for _, n := range list.Items {
			tainted := slices.ContainsFunc(n.Spec.Taints, func(has struct{ Key string }) bool { return has.Key == taint })
			ready := slices.Contains(n.Status.Conditions, struct{ Type, Status string }{nodestatus.ConditionType, "True"})
			if n.Status.Allocatable["openshift.io/shared-cpus"] == shared && ready && !tainted {
				done++
			}
		}
		if done != nodes {
			return fmt.Errorf("%d of %d do", done, nodes)
		}
		return nil
	})
}

// allWatch waits until each node has a watch that was begun after a moment.
func (f *fleet) allWatch(t *testing.T, since time.Time) {
	t.Helper()
	eventually(t, "all nodes are watched", func() error {
		watched := map[string]bool{}
		for _, r := range f.server.requests(t) {
			if r.what == "watch nodes" && r.code == 200 && r.at.After(since) {
				watched[r.node] = true
			}
		}
		if len(watched) != nodes {
			return fmt.Errorf("%d of %d are", len(watched), nodes)
		}
		return nil
	})
}

// held returns the API server's watches of Nodes, goroutines, and heap in use.
func (f *fleet) held(t *testing.T) string {
	t.Helper()
	var watches, goroutines, heap string
	data, err := f.server.do("GET", "/metrics", "", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if end := strings.LastIndex(line, "} "); end >= 0 {
			name, value = line[:end], strings.TrimSpace(line[end+2:])
		}
		switch {
		case strings.HasPrefix(name, "apiserver_longrunning_requests{") && strings.Contains(name, `resource="nodes",scope="resource"`):
			watches = value
		case name == "go_goroutines":
			goroutines = value
		case name == "go_memstats_heap_inuse_bytes":
			heap = value
		}
	}
	return fmt.Sprintf("%s, %s, %s", watches, goroutines, heap)
}

// TestFleet goes through the life of a cluster. Only counts can fail it, never times.
func TestFleet(t *testing.T) {
	f := newFleet(t)
	before := f.held(t)

	from := f.mark(t)
	f.run(t)
	f.allShow(t, "4k")
	f.allWatch(t, from.at)
	begin := f.since(t, "start", from)

	// The client closes the connection for patches after an idle minute. The test measures
	// idle time, so there is no other condition to wait for.
	time.Sleep(70 * time.Second)
	from = f.mark(t)
	time.Sleep(time.Minute)
	rest := f.since(t, "an idle minute", from)
	t.Logf("watches, goroutines and heap in use of the API server: before %s; idle %s", before, f.held(t))

	from = f.mark(t)
	var received []int64
	for _, n := range f.nodes {
		received = append(received, n.meter.received.Load())
	}
	for _, n := range f.nodes {
		f.report(t, n.name)
	}
	eventually(t, "all nodes have received the change", func() error { return f.quiet(received) })
	reported := f.since(t, "kubelets' status", from)

	from = f.mark(t)
	f.server.Process.Kill()
	f.server.Start(t)
	f.allWatch(t, from.at)
	restart := f.since(t, "API server killed", from)

	from = f.mark(t)
	next := time.NewTicker(15 * time.Second / nodes)
	defer next.Stop()
	for i, n := range f.nodes {
		n.runner.Show(shown(i, 6000))
		<-next.C
	}
	f.allShow(t, "6k")
	change := f.since(t, "pools change", from)

	// A machine that has too much to do answers some requests too late, and they are
	// made again.
	check := func(p phase, perNode map[string]float64, most int) {
		t.Helper()
		for what, n := range p.requests {
			if limit, ok := perNode[what]; !ok || float64(n) > limit*nodes {
				t.Errorf("%s: %d requests to %s of %d nodes; want %.1f for each at most", p.name, n, what, nodes, limit)
			}
		}
		if p.most > most {
			t.Errorf("%s: one node has made %d requests; want %d at most", p.name, p.most, most)
		}
	}
	check(begin, map[string]float64{"watch nodes": 1.5, "patch nodes/status": 1.5, "patch nodes": 1.5}, 9)
	check(rest, nil, 0)
	check(reported, nil, 0)
	check(change, map[string]float64{"patch nodes/status": 1.5}, 3)
	if rest.open != nodes || rest.dials != 0 || reported.dials != 0 {
		t.Errorf("idle: %d connections, %d of them new; want %d, and 0", rest.open, rest.dials+reported.dials, nodes)
	}
	// Nodes that lose it at the same time come back one after the other.
	refused := 0
	for _, n := range restart.refused {
		refused += n
	}
	if restart.requests["watch nodes"] > nodes*3/2+refused || len(restart.requests) != 1 {
		t.Errorf("after the restart: requests %v, %d of them refused; want one watch of each node", restart.requests, refused)
	}
	// The nodes must spread their requests: a busy server may answer many at once.
	if restart.dialPeak > nodes/2 {
		t.Errorf("%d of %d nodes have asked for a connection within one second; want %d at most", restart.dialPeak, nodes, nodes/2)
	}
}

// quiet checks that each node has received more than a bookmark since.
func (f *fleet) quiet(before []int64) error {
	for i, n := range f.nodes {
		if got := n.meter.received.Load() - before[i]; got < 2000 {
			return fmt.Errorf("%s has received %d bytes", n.name, got)
		}
	}
	return nil
}

// String is a line of the table in docs/explanation/scale.md.
func (p phase) String() string {
	var asked []string
	for _, what := range slices.Sorted(maps.Keys(p.requests)) {
		asked = append(asked, fmt.Sprintf("%s %.2f", what, float64(p.requests[what])/nodes))
	}
	return fmt.Sprintf("| %s | %.0f s | %s | %v | %d | %d | %.2f | %.2f | %d | %d | %.0f s |", p.name, p.lasted.Seconds(), strings.Join(asked, ", "),
		p.refused, p.sent/nodes, p.received/nodes, float64(p.dials)/nodes, float64(p.open)/nodes, p.peak, p.dialPeak, p.last.Seconds())
}
