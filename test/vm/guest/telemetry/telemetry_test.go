//go:build guest

package telemetry_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const (
	mount = "/sys/fs/cgroup"
	group = "telemetry"
	// spinner in the environment makes this binary burn one CPU.
	spinner = "TELEMETRY_SPIN"
)

func TestMain(m *testing.M) {
	if os.Getenv(spinner) != "" {
		for { //nolint:staticcheck // burning CPU is the purpose
		}
	}
	os.Exit(m.Run())
}

func write(t *testing.T, path, value string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

// spin starts processes in the cgroup and returns a function that ends them.
func spin(t *testing.T, n int) (stop func()) {
	t.Helper()
	dir, err := os.Open(mount + "/" + group)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var all []*exec.Cmd
	for range n {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), spinner+"=1", "GOMAXPROCS=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Pdeathsig: syscall.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	return func() {
		for _, cmd := range all {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()         // returns an error, because it was killed
		}
		all = nil
	}
}

// scrape returns the value of a sample, and whether there is one.
func scrape(t *testing.T, h http.Handler, sample string) (float64, bool) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, sample+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v, true
		}
	}
	return 0, false
}

// Two processes that want all of CPU 7: together they get one CPU, and each
// waits while the other runs.
func TestTwoProcessesOnOneCPU(t *testing.T) {
	write(t, mount+"/cgroup.subtree_control", "+cpuset +cpu")
	if err := os.Mkdir(mount+"/"+group, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, mount+"/"+group+"/cpuset.cpus", "7")
	var log bytes.Buffer
	pool, rest := telemetry.PoolName{Pool: "guaranteed"}, telemetry.PoolName{Pool: "shared"}
	view := &telemetry.View{
		Pools:      []telemetry.Pool{{PoolName: pool, CPUs: cpuset.Of(7)}, {PoolName: rest, CPUs: cpuset.Range(0, 6)}},
		Containers: []telemetry.Container{{PoolName: pool, ID: "c1", Namespace: "ns", Pod: "p", Name: "app", Cgroup: group}},
	}
	server, err := telemetry.New(telemetry.Options{
		View:       func() *telemetry.View { return view },
		Heartbeat:  time.Now,
		MaxSilence: time.Minute,
		Proc:       "/proc",
		Cgroups:    mount,
		Log:        slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	const container = `{container="app",container_id="c1",namespace="ns",pod="p",pool="guaranteed",type=""}`
	const ofPool = `pool="guaranteed",type=""`
	get := func(sample string) float64 {
		t.Helper()
		v, ok := scrape(t, server, sample)
		if !ok {
			t.Errorf("no sample %s", sample)
		}
		return v
	}
	scrape(t, server, "") // pressure counts from the first scrape that sees the container

	stop := spin(t, 2)
	t.Cleanup(stop)
	const enough = 2.0 // seconds of CPU time
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for used := 0.0; used < enough; used, _ = scrape(t, server, "cpupoold_container_cpu_seconds_total"+container) {
		select {
		case <-ticker.C:
		case <-t.Context().Done():
			t.Fatalf("the processes used %v s of CPU time; want %v", used, enough)
		}
	}
	busy := get(`cpupoold_pool_cpu_seconds_total{mode="user",`+ofPool+`}`) + get(`cpupoold_pool_cpu_seconds_total{mode="system",`+ofPool+`}`)
	if busy < enough/2 {
		t.Errorf("the pool's CPU was busy for %v s; want most of %v", busy, enough)
	}
	if waited := get(`cpupoold_pool_runqueue_wait_seconds_total{` + ofPool + `}`); waited < enough/2 {
		t.Errorf("tasks waited %v s for the pool's CPU; want about %v, one process while the other runs", waited, enough)
	}
	if stalled := get(`cpupoold_container_cpu_pressure_seconds_total` + strings.Replace(container, "namespace", `kind="some",namespace`, 1)); stalled < enough/2 {
		t.Errorf("the container was stalled for %v s; want about %v", stalled, enough)
	}
	pressure := `cpupoold_pool_container_pressure_seconds_total{kind="some",` + ofPool + `}`
	before := get(pressure)
	if before < enough/4 {
		t.Errorf("the pool's containers were stalled for %v s; want about %v", before, enough)
	}

	stop()
	if err := os.Remove(mount + "/" + group); err != nil {
		t.Fatal(err)
	}
	if v, ok := scrape(t, server, "cpupoold_container_cpu_seconds_total"+container); ok {
		t.Errorf("a container whose cgroup is gone has used %v s; want no sample", v)
	}
	if after := get(pressure); after < before {
		t.Errorf("counter of the pool fell from %v to %v at the end of a container; want no fall", before, after)
	}
	if log.Len() > 0 {
		t.Errorf("log = %s; want it empty", &log)
	}
}
