//go:build guest

package idle_test

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// instance is the kernel's trace buffer of this test (Documentation/trace/ftrace.rst).
const instance = "/sys/kernel/tracing/instances/idle"

// gap separates two activities.
const gap = 200 * time.Millisecond

// activity is a period in which the daemon runs, with pauses shorter than gap.
type activity struct {
	begin, end time.Duration // since the start of the trace
	cpu        time.Duration // of all threads
	switches   int           // how often a thread began to run
	calls      map[string]int
}

// isAudit reports whether the audit has scanned all tasks: only the audit measures the time of its thread.
func (a *activity) isAudit() bool { return a.calls["getrusage"] > 0 }

// work returns the number of system calls that do not belong to Go's scheduler. Their number depends on the speed of the CPUs.
func (a *activity) work() (n int) {
	scheduler := []string{"nanosleep", "futex", "epoll_pwait", "sched_yield", "getpid", "tgkill", "rt_sigreturn", "madvise", "rt_sigprocmask", "clone", "clone3"}
	for name, count := range a.calls {
		if !slices.Contains(scheduler, name) {
			n += count
		}
	}
	return n
}

func (a *activity) String() string {
	names := slices.SortedFunc(maps.Keys(a.calls), func(x, y string) int {
		return cmp.Or(a.calls[y]-a.calls[x], strings.Compare(x, y))
	})
	var calls []string
	total := 0
	for _, name := range names {
		calls = append(calls, fmt.Sprintf("%s %d", name, a.calls[name]))
		total += a.calls[name]
	}
	return fmt.Sprintf("at %6.2f s for %v: %v of CPU time, %d switches, %d system calls: %s",
		a.begin.Seconds(), (a.end - a.begin).Round(time.Millisecond), a.cpu.Round(10*time.Microsecond), a.switches, total, strings.Join(calls, ", "))
}

// trace records the system calls and the CPU time of a process for a window.
func trace(t *testing.T, pid string) []*activity {
	t.Helper()
	if err := os.Mkdir(instance, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(instance); err != nil {
			t.Error(err)
		}
	})
	write := func(file, value string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(instance, file), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tracing_on", "0")
	write("buffer_size_kb", "8192")
	write("options/event-fork", "1") // threads that start later too
	threads, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	own := map[string]bool{}
	for _, thread := range threads {
		own[thread.Name()] = true
	}
	write("set_event_pid", strings.Join(slices.Collect(maps.Keys(own)), " "))
	calls, err := filepath.Glob(instance + "/events/syscalls/sys_enter_*/enable")
	if err != nil || len(calls) == 0 {
		t.Fatalf("events of system calls: %d, %v", len(calls), err)
	}
	for _, file := range append(calls, instance+"/events/sched/sched_switch/enable") {
		if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tracing_on", "1")
	before := cpuTime(t)
	<-time.After(window)
	used := cpuTime(t) - before
	write("tracing_on", "0")
	defer write("events/enable", "0")
	all := read(t, own)
	var sum activity
	sum.calls = map[string]int{}
	for _, a := range all {
		sum.cpu += a.cpu
		sum.switches += a.switches
		sum.end = a.end
		for name, n := range a.calls {
			sum.calls[name] += n
		}
	}
	t.Logf("traced window: %v of CPU time, %v in the trace", used, sum.cpu)
	t.Log("all: ", &sum)
	return all
}

// read reads the trace buffer.
func read(t *testing.T, own map[string]bool) (all []*activity) {
	t.Helper()
	f, err := os.Open(filepath.Join(instance, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var last *activity
	first := time.Duration(-1)
	running := map[string]time.Duration{}
	at := func(now time.Duration) *activity {
		if last == nil || now-last.end > gap {
			last = &activity{begin: now, calls: map[string]int{}}
			all = append(all, last)
		}
		last.end = now
		return last
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			if strings.Contains(line, "entries-in-buffer") {
				t.Log(line)
			}
			continue
		}
		seconds, event, err := parse(line)
		if err != nil {
			t.Fatalf("line of the trace %q: %v", line, err)
		}
		if first < 0 {
			first = seconds
		}
		now := seconds - first
		if call, rest, _ := strings.Cut(event, "("); strings.HasPrefix(call, "sys_") && rest != "" {
			at(now).calls[strings.TrimPrefix(call, "sys_")]++
			continue
		}
		if prev, is := field(event, "prev_pid="); is {
			if began, runs := running[prev]; runs {
				at(now).cpu += now - began
				delete(running, prev)
			}
		}
		if next, is := field(event, "next_pid="); is && (own[next] || strings.Contains(event, "next_comm=cpupoold ")) {
			running[next] = now
			at(now).switches++
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// parse returns the time and the event of a line.
func parse(line string) (time.Duration, string, error) {
	_, rest, found := strings.Cut(line, "] ")
	head, event, also := strings.Cut(rest, ": ")
	fields := strings.Fields(head)
	if !found || !also || len(fields) == 0 {
		return 0, "", errors.New("no time")
	}
	seconds, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	return time.Duration(seconds * float64(time.Second)), event, err
}

// field returns the value after a name.
func field(event, name string) (string, bool) {
	_, rest, found := strings.Cut(event, name)
	value, _, _ := strings.Cut(rest, " ")
	return value, found
}
