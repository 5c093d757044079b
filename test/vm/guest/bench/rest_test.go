//go:build guest

package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
	"github.com/cpupoold/cpupoold/test/vm/internal/samples"
)

const (
	pods           = 125
	containersEach = 2

	settleTime = time.Minute       // after the last work
	restTime   = 180 * time.Second // six resyncs, after each second of which memory is given back
	unitCgroup = cgroupMount + "/system.slice/cpupoold.service"
	metricsURL = "http://127.0.0.1:9466/metrics"
)

// TestRest measures events while the node fills with containers. Then it measures two idle daemons on a node with 250 containers: the daemon
// that has placed them all, and one that was started on them. Samples of an idle daemon, each over restTime:
//
//   - RssAnon-B, the maximum of one reading each second (/proc/PID/status);
//   - cpu-ns: CPU time of the unit's cgroup. The CPU is emulated: a real one takes a fraction of it;
//   - passes, and switches: voluntary context switches of all threads.
func TestRest(t *testing.T) {
	patient(t)
	startDaemon(t)
	m := newMaker(t)
	var sharers []cgroup.Path
	made := 0
	for _, containers := range scales() {
		sharers = append(sharers, m.fill(t, made, containers/containersEach)...)
		made = containers / containersEach
		t.Logf("%d containers: %s", containers, m.answers())
		measureEvents(t, m, containers, sharers)
	}
	for _, name := range []string{"Rest/placed", "Rest/restarted"} {
		quiet(t)
		measure(t, name)
		run(t, "systemctl", "restart", "cpupoold")
	}
}

// fill makes the pods from one number to another, some at a time, and returns the cgroups of their containers that share the shared pool.
func (m *maker) fill(t *testing.T, from, to int) (sharers []cgroup.Path) {
	t.Helper()
	const atATime = 3
	type filled struct {
		sharers []cgroup.Path
		err     error
	}
	numbers, all := make(chan int), make(chan filled, to-from)
	for range atATime {
		go func() {
			for i := range numbers {
				sharers, err := m.fillOne(t.Context(), i)
				all <- filled{sharers, err}
			}
		}()
	}
	go func() {
		defer close(numbers)
		for i := from; i < to; i++ {
			numbers <- i
		}
	}()
	for range to - from {
		f := <-all
		if f.err != nil {
			t.Fatal(f.err)
		}
		sharers = append(sharers, f.sharers...)
	}
	return sharers
}

// fillOne makes the i-th pod.
func (m *maker) fillOne(ctx context.Context, i int) (sharers []cgroup.Path, err error) {
	k := kindOf(i)
	p, err := m.sandbox(ctx, k, containersEach)
	if err != nil {
		return nil, err
	}
	for j := range containersEach {
		id, err := m.create(ctx, p, fmt.Sprintf("app%d", j), 0)
		if err == nil {
			err = m.start(ctx, id)
		}
		if err != nil {
			return nil, fmt.Errorf("pod %d: %w", i, err)
		}
		if k.cpus == 0 && k.annotations == nil {
			sharers = append(sharers, p.scope(id))
		}
	}
	return sharers, nil
}

// patient gives the runtime more time for its plugins, and systemd more time for the daemon's watchdog. An emulated CPU is 10 to 50 times slower
// than the hardware that the defaults expect, and may not run for minutes. It also sets the limits that nodes with so many containers get.
func patient(t *testing.T) {
	t.Helper()
	for file, limits := range map[string]string{
		"/etc/containerd/conf.d/timeouts.toml": `version = 4

[plugins.'io.containerd.nri.v1.nri']
  plugin_registration_timeout = '60s'
  plugin_request_timeout = '30s'
`,
		"/etc/systemd/system/cpupoold.service.d/timeouts.conf": "[Service]\nWatchdogSec=30min\n",
	} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(limits), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "systemctl", "daemon-reload")
	run(t, "systemctl", "restart", "containerd")
	// Linux gives 128 instances to a user. The runtime takes one for each container, to detect memory exhaustion.
	run(t, "sysctl", "-w", "fs.inotify.max_user_instances=8192")
}

// kindOf spreads the pods over the pools. Half of the guaranteed CPUs stay free for the containers that
// start and stop.
func kindOf(i int) kind {
	switch {
	case i < 1:
		return kind{namespace: "default", cpus: 1}
	case i%5 == 0:
		return kind{namespace: "kube-system", annotations: manifest.Management(map[string]string{"app0": "512", "app1": "100"})}
	default:
		return kind{namespace: "default"}
	}
}

func measure(t *testing.T, name string) {
	t.Helper()
	<-time.After(settleTime)
	pid := daemonPID(t)
	passes := passesOf(t)
	cpu, switches := cpuTime(t), switchesOf(t, pid)
	var rss int64
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < restTime; <-tick.C {
		rss = max(rss, samples.Field(t, "/proc/"+pid+"/status", "RssAnon:")<<10)
	}
	cpu, switches = cpuTime(t)-cpu, switchesOf(t, pid)-switches
	passes = passesOf(t) - passes
	sample(t, name, rss, "RssAnon-B", cpu.Nanoseconds(), "cpu-ns", passes, "passes", switches, "switches")
}

func daemonPID(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, "systemctl", "show", "-P", "MainPID", "cpupoold"))
}

// cpuTime returns the CPU time that the unit has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(samples.Field(t, unitCgroup+"/cpu.stat", "usage_usec")) * time.Microsecond
}

func switchesOf(t *testing.T, pid string) int64 {
	t.Helper()
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, thread := range threads {
		n += samples.Field(t, "/proc/"+pid+"/task/"+thread.Name()+"/status", "voluntary_ctxt_switches:")
	}
	return n
}

// passesOf asks the daemon how many passes it has made.
func passesOf(t *testing.T) int64 {
	t.Helper()
	return int64(metric(t, "cpupoold_passes_total{"))
}

// metric returns the sum of the daemon's samples with a prefix.
func metric(t *testing.T, prefix string) (sum float64) {
	t.Helper()
	response, err := http.Get(metricsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, prefix) {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}
