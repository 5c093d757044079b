package telemetry_test

import (
	"bytes"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"golang.org/x/tools/txtar"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

var update = flag.Bool("update", false, "rewrite the expected results and docs/reference/metrics.md")

// node is a server over a directory with the files of testdata/node.txtar.
type node struct {
	t      *testing.T
	dir    string
	view   *telemetry.View
	beat   time.Time
	log    bytes.Buffer
	server *telemetry.Server
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, dir: t.TempDir(), beat: time.Now()}
	n.at("1")
	server, err := telemetry.New(telemetry.Options{
		View:       func() *telemetry.View { return n.view },
		Heartbeat:  func() time.Time { return n.beat },
		MaxSilence: time.Minute,
		Proc:       filepath.Join(n.dir, "proc"),
		Cgroups:    filepath.Join(n.dir, "cgroup"),
		Build:      telemetry.Build{Version: "v1.2.3", Revision: "abc", Go: "go1"},
		Log:        slog.New(slog.NewTextHandler(&n.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.server = server
	return n
}

// at writes the node's files in the state of a step.
func (n *node) at(step string) {
	n.t.Helper()
	archive, err := txtar.ParseFile("testdata/node.txtar")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, dir := range []string{"proc", "cgroup"} {
		if err := os.RemoveAll(filepath.Join(n.dir, dir)); err != nil {
			n.t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		if name, ok := strings.CutPrefix(f.Name, step+"/"); ok {
			n.write(name, string(f.Data))
		}
	}
}

func (n *node) write(name, data string) {
	n.t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) get(path string) (code int, body string) {
	n.t.Helper()
	w := httptest.NewRecorder()
	n.server.ServeHTTP(w, httptest.NewRequestWithContext(n.t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// scrape returns the metrics of the project.
func (n *node) scrape() string {
	n.t.Helper()
	code, body := n.get("/metrics")
	if code != http.StatusOK {
		n.t.Fatalf("/metrics: %d %s", code, body)
	}
	var own []string
	for line := range strings.Lines(body) {
		if strings.Contains(line, "cpupoold_") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}

// want checks that the scrape contains exactly these samples of a metric.
func (n *node) want(metric string, samples ...string) {
	n.t.Helper()
	var got []string
	for line := range strings.Lines(n.scrape()) {
		if rest, ok := strings.CutPrefix(line, metric); ok && strings.HasPrefix(rest, "{") {
			got = append(got, strings.TrimSpace(rest))
		}
	}
	if diff := cmp.Diff(samples, got); diff != "" {
		n.t.Errorf("%s (-want +got):\n%s", metric, diff)
	}
}

var (
	management = telemetry.PoolName{Pool: "management", Type: "management"}
	shared     = telemetry.PoolName{Pool: "shared"}
	guaranteed = telemetry.PoolName{Pool: "guaranteed"}
)

func view() *telemetry.View {
	return &telemetry.View{
		Pools: []telemetry.Pool{
			{PoolName: management, CPUs: cpuset.Of(0)},
			{PoolName: shared, CPUs: cpuset.Of(1), Allocated: 1250},
			{PoolName: guaranteed, CPUs: cpuset.Of(2, 3), Free: cpuset.Of(3), Allocated: 1000},
		},
		Containers: []telemetry.Container{
			{PoolName: guaranteed, ID: "c1", Namespace: "ran", Pod: "vdu", Name: "app", Reason: "whole_cpus", Cgroup: "pod1/app.scope", Isolation: "partition-root",
				Noise: map[string]int{"balancing": 2, "tick": 0}},
			{PoolName: shared, ID: "c2", Namespace: "default", Pod: "web", Name: "web", Reason: "burstable", Cgroup: "pod2/web.scope"},
			{PoolName: shared, ID: "c3", Namespace: "default", Pod: "web", Name: "init", Reason: "burstable"},
			{PoolName: management, ID: "c4", Namespace: "ops", Pod: "agent", Name: "agent", Reason: "namespace", Cgroup: "pod3/agent.scope", Requested: 0.25},
			{PoolName: management, ID: "c5", Namespace: "ops", Pod: "agent", Name: "idle", Reason: "namespace", Cgroup: "pod3/idle.scope"},
			{PoolName: guaranteed, Unit: true, Name: "du.service", Reason: "unit", Cgroup: "system.slice/du.service"},
		},
		Problems: map[string]int{"namespace_not_listed": 2},

		HostUnits:   []telemetry.HostUnit{{Name: "init.scope", State: "confined"}, {Name: "user.slice", State: "foreign"}},
		Passes:      map[telemetry.Result]uint64{telemetry.OK: 7},
		Writes:      map[telemetry.Write]uint64{{Via: "cri", Result: telemetry.OK}: 3, {Via: "file", Result: telemetry.Failed}: 1},
		WriteErrors: map[telemetry.WriteError]uint64{{Via: "file", Errno: "EBUSY"}: 1, {Via: "cri", Errno: telemetry.ErrnoTimeout}: 2},
		Faulty:      1, PartitionChanges: 6, Open: 1,
		Drifted: telemetry.Drifted{
			Drifts:   map[telemetry.Drift]uint64{{Cause: telemetry.CauseRuntime, Property: "cpuset.cpus"}: 2},
			Repaired: map[telemetry.Drift]uint64{{Cause: telemetry.CauseRuntime, Property: "cpuset.cpus"}: 1},
		},
		Room:     &telemetry.Room{Pool: 5, Node: 4, L3: 3, WholeCores: 2},
		Settings: &telemetry.HostSettings{Moved: map[string]int{"irq": 2}, Stuck: map[telemetry.StuckSetting]int{{Kind: "governor", Reason: "contested"}: 1}},
		Ready:    true, LastSuccess: time.UnixMilli(1700000000500),
		Sources: map[telemetry.Source]telemetry.SourceState{
			telemetry.CRIEvents: telemetry.SourcePolling, telemetry.PodResources: telemetry.SourceLost,
		},
		Node: &telemetry.NodeView{
			Pressure:  true,
			Resources: []telemetry.NodeResource{{Name: "openshift.io/shared-cpus", Milli: 3750, Unaccounted: 250}},
			Patches:   map[telemetry.Result]uint64{telemetry.OK: 2, telemetry.Conflict: 1},
			Events:    map[telemetry.Result]uint64{telemetry.Failed: 1},
		},
		LiveAudit: &telemetry.LiveAudit{Program: "btf", CPUs: cpuset.Range(4, 5), Watched: 100, Switches: 900, Foreign: [4]telemetry.LiveCount{{Seconds: 0.5, Switches: 7}, {Seconds: 1, Switches: 80}},
			Reports: 2, Lost: 1, Runs: 1000, RunSeconds: 0.0002},
		Audit: &telemetry.Audit{Scans: 5, Failed: 1, Seconds: 0.25, Pools: []telemetry.AuditPool{
			{PoolName: guaranteed, Known: true, Score: 0.875, ExposedTasks: 3, ExposedInterrupts: 2, Others: 7.5, Interrupts: 40},
			{PoolName: shared, Others: 1},
		}},
		Adapted:    []string{"shared.cpus: CPU 9 is not on this machine; left out"},
		Offline:    cpuset.Of(8, 9),
		Partitions: map[string]int{"root": 1, "refused": 2},
		Leaked:     cpuset.Of(7),
		Parked:     cpuset.Of(5, 6),
		Claims: &telemetry.Claims{Used: 2, Prepared: 1, Refused: 1, Devices: map[string]telemetry.DeviceCPUs{
			"numa0": {Allocated: 4, Free: 2}, "numa1": {Allocated: 2, Offline: 1}, "": {Offline: 3},
		}},
		Mixed:     2,
		Quiet:     map[string]int{"cpus": 1, "weights": 2},
		Observed:  map[string]int{"file": 3},
		Refused:   map[string]uint64{"TooFew": 3, "Floor": 1},
		Shortened: 2, RefusedNow: 2,
		Replies: map[string]telemetry.Histogram{"create": {Count: 3, Sum: 0.5, Buckets: map[float64]uint64{0.25: 2}}, "start": telemetry.NewHistogram()},
	}
}

// TestMetrics checks that each metric of the table has a value.
func TestMetrics(t *testing.T) {
	n := newNode(t)
	n.view = view()
	n.scrape()
	n.at("2")
	got := n.scrape()
	const golden = "testdata/metrics.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("/metrics (-want +got):\n%s", diff)
	}
	for _, name := range telemetry.Names() {
		if !strings.Contains(got, "# TYPE "+name+" ") {
			t.Errorf("/metrics lacks %s: report it in collector.go, and give it a value in view", name)
		}
	}
	findings, err := promlint.New(strings.NewReader(got)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Errorf("%s: %s", f.Metric, f.Text)
	}
	if n.log.Len() > 0 {
		t.Errorf("logged: %s", &n.log)
	}
}

func TestMetricsBeforeTheFirstPass(t *testing.T) {
	n := newNode(t)
	n.want("cpupoold_build_info", `{goversion="go1",revision="abc",version="v1.2.3"} 1`)
	n.want("cpupoold_pool_cpus")
	n.want("cpupoold_passes_total", `{result="failed"} 0`, `{result="ok"} 0`, `{result="unavailable"} 0`)
}

// TestCountersGrowWhenPoolsChange checks that counters only grow: a CPU does not take its past
// time into another pool.
func TestCountersGrowWhenPoolsChange(t *testing.T) {
	n := newNode(t)
	n.view = view()
	n.at("2")
	n.want("cpupoold_pool_runqueue_wait_seconds_total",
		`{pool="guaranteed",type=""} 0`, `{pool="management",type="management"} 0.25`, `{pool="shared",type=""} 0`)
	moved := view()
	moved.Pools[0].CPUs, moved.Pools[1].CPUs = cpuset.Of(1), cpuset.Of(0)
	n.view = moved
	n.want("cpupoold_pool_runqueue_wait_seconds_total",
		`{pool="guaranteed",type=""} 0`, `{pool="management",type="management"} 0.25`, `{pool="shared",type=""} 0`)
	moved = view()
	moved.Pools = moved.Pools[1:]
	n.view = moved
	n.want("cpupoold_pool_runqueue_wait_seconds_total", `{pool="guaranteed",type=""} 0`, `{pool="shared",type=""} 0`)
}

// TestOverlappingPools checks that the time of a CPU counts in each pool that contains it. Pools
// of type all overlap others.
func TestOverlappingPools(t *testing.T) {
	n := newNode(t)
	n.view = view()
	n.view.Pools[1].CPUs = cpuset.Of(0, 1)
	n.at("2")
	n.want("cpupoold_pool_runqueue_wait_seconds_total",
		`{pool="guaranteed",type=""} 0`, `{pool="management",type="management"} 0.25`, `{pool="shared",type=""} 0.25`)
}

func TestKernelWithoutSchedstat(t *testing.T) {
	n := newNode(t)
	n.view = view()
	if err := os.Remove(filepath.Join(n.dir, "proc/schedstat")); err != nil {
		t.Fatal(err)
	}
	n.want("cpupoold_pool_runqueue_wait_seconds_total")
	n.want("cpupoold_pool_cpus",
		`{pool="guaranteed",type=""} 2`, `{pool="management",type="management"} 1`, `{pool="shared",type=""} 1`)
	if n.log.Len() > 0 {
		t.Errorf("logged: %s", &n.log)
	}
}

// TestUnreadableContainer checks that an unreadable container is reported, and that the values of
// other containers stay complete.
func TestUnreadableContainer(t *testing.T) {
	n := newNode(t)
	n.view = view()
	n.write("cgroup/pod2/web.scope/cpu.stat", "usage_usec lots\n")
	n.want("cpupoold_container_cpu_seconds_total",
		`{container="agent",container_id="c4",namespace="ops",pod="agent",pool="management",type="management"} 1`,
		`{container="app",container_id="c1",namespace="ran",pod="vdu",pool="guaranteed",type=""} 1.5`,
		`{container="idle",container_id="c5",namespace="ops",pod="agent",pool="management",type="management"} 1e-05`)
	if !strings.Contains(n.log.String(), "pod2/web.scope") {
		t.Errorf("log does not name the cgroup: %s", &n.log)
	}
}

func TestProbes(t *testing.T) {
	n := newNode(t)
	check := func(path string, want int) {
		t.Helper()
		if code, body := n.get(path); code != want {
			t.Errorf("%s = %d %q; want %d", path, code, body, want)
		}
	}
	check("/healthz", http.StatusOK)
	check("/readyz", http.StatusServiceUnavailable)
	n.view = &telemetry.View{}
	check("/readyz", http.StatusServiceUnavailable)
	n.view = view()
	check("/readyz", http.StatusOK)
	n.beat = time.Now().Add(-2 * time.Minute)
	check("/healthz", http.StatusServiceUnavailable)
	check("/readyz", http.StatusOK)
	check("/", http.StatusNotFound)
}

func TestDocument(t *testing.T) {
	const page = "../../../docs/reference/metrics.md"
	if *update {
		if err := os.WriteFile(page, []byte(telemetry.Document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(telemetry.Document(), string(got)); diff != "" {
		t.Errorf("%s is not up to date: run go test ./internal/node/telemetry -update (-want +got):\n%s", page, diff)
	}
}
