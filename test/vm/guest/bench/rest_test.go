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
)

const (
	pods           = 125
	containersEach = 2

	settleTime = time.Minute       // after the last work
	restTime   = 180 * time.Second // six resyncs, after each second of which memory is given back
	unitCgroup = cgroupMount + "/system.slice/cpupoold.service"
	metricsURL = "http://127.0.0.1:9466/metrics"
)

// TestRest measures events while the node fills with containers, and then the daemon while nothing happens on a node with 250: first the one
// that has placed them all, then one that was started on them. Samples of the daemon at rest, each over restTime:
//
//   - RssAnon-B, the most of what was seen each second (/proc/PID/status);
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

// patient has the runtime wait longer for its plugins, and systemd for the daemon's signs of life: an emulated CPU is 10 to 50 times slower than
// those that they are meant for, and may not be run for minutes. And it is given what nodes of so many containers are given.
func patient(t *testing.T) {
	t.Helper()
	for file, limits := range map[string]string{
		"/etc/containerd/conf.d/patience.toml": `version = 4

[plugins.'io.containerd.nri.v1.nri']
  plugin_registration_timeout = '60s'
  plugin_request_timeout = '30s'
`,
		"/etc/systemd/system/cpupoold.service.d/patience.conf": "[Service]\nWatchdogSec=30min\n",
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
	// Of the 128 that Linux gives to a user the runtime takes one for each container, to hear of memory that is used up.
	run(t, "sysctl", "-w", "fs.inotify.max_user_instances=8192")
}

// kindOf spreads the pods over the pools. Half of the guaranteed CPUs are left for those that come and go.
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
		rss = max(rss, field(t, "/proc/"+pid+"/status", "RssAnon:")<<10)
	}
	cpu, switches = cpuTime(t)-cpu, switchesOf(t, pid)-switches
	passes = passesOf(t) - passes
	sample(t, name, rss, "RssAnon-B", cpu.Nanoseconds(), "cpu-ns", passes, "passes", switches, "switches")
}

func daemonPID(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(run(t, "systemctl", "show", "-P", "MainPID", "cpupoold"))
}

// cpuTime is what the unit has used so far.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	return time.Duration(field(t, unitCgroup+"/cpu.stat", "usage_usec")) * time.Microsecond
}

func switchesOf(t *testing.T, pid string) int64 {
	t.Helper()
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, thread := range threads {
		n += field(t, "/proc/"+pid+"/task/"+thread.Name()+"/status", "voluntary_ctxt_switches:")
	}
	return n
}

// field returns the number that follows a name at the start of a line.
func field(t *testing.T, file, name string) int64 {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no %s in %s", name, file)
	return 0
}

// passesOf asks the daemon how many passes it has made.
func passesOf(t *testing.T) int64 {
	t.Helper()
	response, err := http.Get(metricsURL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var n float64
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if name, value, _ := strings.Cut(lines.Text(), " "); strings.HasPrefix(name, "cpupoold_passes_total{") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			n += v
		}
	}
	return int64(n)
}
