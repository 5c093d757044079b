//go:build guest

package bench_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

const (
	pods           = 125
	containersEach = 2

	settleTime = time.Minute       // after the last work
	restTime   = 150 * time.Second // five resyncs
	unitCgroup = "/sys/fs/cgroup/system.slice/cpupoold.service"
	metricsURL = "http://127.0.0.1:9466/metrics"
)

// TestRest measures the daemon while nothing happens on a node with 250 containers: first the one that has placed them all, then one
// that was started on them. Samples, each over restTime:
//
//   - RssAnon-B at the end (/proc/PID/status);
//   - cpu-ns: CPU time of the unit's cgroup. The CPU is emulated: a real one takes a fraction of it;
//   - passes, and switches: voluntary context switches of all threads.
func TestRest(t *testing.T) {
	startDaemon(t)
	m := newMaker(t)
	for i := range pods {
		p := m.sandbox(kindOf(i), containersEach)
		for j := range containersEach {
			m.start(m.create(p, fmt.Sprintf("app%d", j)))
		}
	}
	for _, name := range []string{"Rest/placed", "Rest/restarted"} {
		quiet(t)
		measure(t, name)
		run(t, "systemctl", "restart", "cpupoold")
	}
}

// kindOf spreads the pods over the pools. There are CPUs for the containers of two exclusive ones.
func kindOf(i int) kind {
	switch {
	case i < 2:
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
	pid := strings.TrimSpace(run(t, "systemctl", "show", "-P", "MainPID", "cpupoold"))
	passes := passesOf(t)
	cpu, switches := cpuTime(t), switchesOf(t, pid)
	<-time.After(restTime)
	cpu, switches = cpuTime(t)-cpu, switchesOf(t, pid)-switches
	rss := field(t, "/proc/"+pid+"/status", "RssAnon:") << 10
	passes = passesOf(t) - passes
	sample(t, name, rss, "RssAnon-B", cpu.Nanoseconds(), "cpu-ns", passes, "passes", switches, "switches")
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
