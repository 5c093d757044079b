//go:build guest

package isolation_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const instance = "/sys/kernel/tracing/instances/isolation"

// trace is a record of the kernel's of all task switches on some CPUs. The instance and its event (sched:sched_switch) are the guest's,
// see image/rootfs/etc/systemd/system/task-switches.service.
type trace struct {
	*testing.T

	kernels map[int]bool // known kernel threads
}

// startTrace begins to record.
func startTrace(t *testing.T, cpus cpuset.Set) *trace {
	t.Helper()
	tr := &trace{T: t, kernels: make(map[int]bool)}
	var mask uint64
	for cpu := range cpus.All() {
		mask |= 1 << cpu
	}
	tr.seeKernelThreads()
	t.Cleanup(func() {
		tr.set("tracing_on", "0")
		tr.set("buffer_size_kb", "4")
	})
	for _, setting := range [][2]string{
		{"tracing_on", "0"},
		{"buffer_size_kb", "4096"}, // a hundred thousand switches on each CPU
		{"tracing_cpumask", strconv.FormatUint(mask, 16)},
		{"trace", ""}, // nothing of before
		{"tracing_on", "1"},
	} {
		tr.set(setting[0], setting[1])
	}
	return tr
}

func (tr *trace) set(file, value string) {
	tr.Helper()
	if err := os.WriteFile(filepath.Join(instance, file), []byte(value), 0); err != nil {
		tr.Fatal(err)
	}
}

// seeKernelThreads notes those that there are. The flag is PF_KTHREAD of include/linux/sched.h, in field 9 of /proc/PID/stat.
func (tr *trace) seeKernelThreads() {
	tr.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		tr.Fatal(err)
	}
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		end := strings.LastIndex(string(text), ")") // of its name, which may hold anything
		fields := strings.Fields(string(text)[end+1:])
		flags, err := strconv.ParseUint(fields[6], 10, 32)
		if err != nil {
			tr.Fatalf("%s: %q", name, text)
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			tr.Fatal(err)
		}
		tr.kernels[pid] = flags&0x00200000 != 0
	}
}

// ran holds the number of switches to each task.
type ran struct {
	users, kernels map[task]int
}

type task struct {
	name string
	tid  int
}

// end stops recording and returns the records. It fails if a record was lost.
func (tr *trace) end() ran {
	tr.Helper()
	tr.set("tracing_on", "0")
	tr.seeKernelThreads()
	text, err := os.ReadFile(filepath.Join(instance, "trace"))
	if err != nil {
		tr.Fatal(err)
	}
	stats, err := filepath.Glob(filepath.Join(instance, "per_cpu/cpu*/stats"))
	if err != nil || len(stats) == 0 {
		tr.Fatalf("no statistics of the trace: %v", err)
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(stat), "overrun: 0\n") {
			tr.Fatalf("%s: %v: part of the trace is lost:\n%s", name, err, stat)
		}
	}
	r := ran{users: make(map[task]int), kernels: make(map[task]int)}
	for line := range strings.Lines(string(text)) {
		next, ok := switchedTo(line)
		if !ok || next.tid == 0 {
			continue // not an event, or idle
		}
		// A worker may start and end between two scans of /proc.
		if isKernel, seen := tr.kernels[next.tid]; isKernel || !seen && strings.HasPrefix(next.name, "kworker/") {
			r.kernels[next]++
		} else {
			r.users[next]++
		}
	}
	return r
}

// switchedTo reads a line of the trace.
func switchedTo(line string) (next task, ok bool) {
	_, rest, ok := strings.Cut(line, "==> next_comm=")
	i := strings.LastIndex(rest, " next_pid=")
	if !ok || i < 0 {
		return task{}, false
	}
	digits, _, _ := strings.Cut(rest[i+len(" next_pid="):], " ")
	tid, err := strconv.Atoi(digits)
	return task{rest[:i], tid}, err == nil
}

// among and others return the tasks that are, and are not, some of these threads.
func (r ran) among(tids []int) map[task]int  { return r.choose(tids, true) }
func (r ran) others(tids []int) map[task]int { return r.choose(tids, false) }

func (r ran) choose(tids []int, in bool) map[task]int {
	chosen := make(map[task]int)
	for who, count := range r.users {
		if slices.Contains(tids, who.tid) == in {
			chosen[who] = count
		}
	}
	return chosen
}
