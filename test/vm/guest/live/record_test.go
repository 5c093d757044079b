//go:build guest

package live_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/test/vm/internal/switches"
)

// kernelThread is PF_KTHREAD of include/linux/sched.h.
const kernelThread = 0x00200000

// record is an ftrace record of some CPUs, with the kinds of the threads that /proc has shown during the record.
type record struct {
	*node

	*switches.Recorder

	kinds map[int]schedwatch.Kind
	all   map[int][]switches.Switch
}

func (n *node) record(cpus cpuset.Set) *record {
	n.Helper()
	r, err := switches.Start(cpus)
	if err != nil {
		n.Fatal(err)
	}
	n.Cleanup(func() {
		if err := r.Close(); err != nil {
			n.Error(err)
		}
	})
	rec := &record{node: n, Recorder: r, kinds: make(map[int]schedwatch.Kind)}
	rec.scan()
	return rec
}

// end ends the record.
func (r *record) end() {
	r.Helper()
	var err error
	if r.all, err = r.Stop(); err != nil {
		r.Fatal(err)
	}
	r.scan()
}

// scan notes the kinds of all threads.
func (r *record) scan() {
	r.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	if err != nil {
		r.Fatal(err)
	}
	for _, dir := range dirs {
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		status, err2 := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || err2 != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		flags, err := strconv.ParseUint(strings.Fields(rest)[6], 10, 32)
		if err != nil {
			r.Fatalf("%s: %q", dir, stat)
		}
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			r.Fatal(err)
		}
		allowed, err := cpuset.Parse(fields(status)["Cpus_allowed_list"])
		switch {
		case flags&kernelThread == 0:
			r.kinds[tid] = schedwatch.User
		case err == nil && allowed.Len() == 1:
			r.kinds[tid] = schedwatch.BoundKernel
		default:
			r.kinds[tid] = schedwatch.OtherKernel
		}
	}
}

// kind returns the kind of a thread. A worker can begin and end between two scans; its name has its CPU.
func (r *record) kind(t switches.Thread) schedwatch.Kind {
	kind, ok := r.kinds[t.TID]
	if !ok && strings.HasPrefix(t.Name, "kworker/") {
		kind = schedwatch.BoundKernel
		if strings.HasPrefix(t.Name, "kworker/u") {
			kind = schedwatch.OtherKernel
		}
	}
	return kind
}

// window is a time in which a CPU had an owner: from a moment in begin to a moment in end.
type window struct {
	begin, end [2]time.Duration
	owner      string // cgroup
}

// expected holds the foreign tasks of a CPU in the record, at least and at most.
type expected struct {
	least, most [schedwatch.Kinds]schedwatch.Count
	switches    [2]uint64 // of all tasks
}

// foreign counts the foreign tasks in the windows of a CPU. owners has the threads of the owners by cgroup.
func (r *record) foreign(cpu int, windows []window, owners map[string]map[int]bool) (e expected) {
	runs := switches.Runs(r.all[cpu])
	for _, w := range windows {
		for _, s := range r.all[cpu] {
			if w.begin[1] <= s.At && s.At <= w.end[0] {
				e.switches[0]++
			}
			if w.begin[0] <= s.At && s.At <= w.end[1] {
				e.switches[1]++
			}
		}
		for _, run := range runs {
			if run.To < w.begin[0] || run.To > w.end[1] || owners[w.owner][run.TID] {
				continue
			}
			kind := r.kind(run.Thread)
			add := func(to *schedwatch.Count, from, until time.Duration) {
				if from <= run.To && run.To <= until {
					to.Switches++
					to.Time += run.To - max(run.From, from)
				}
			}
			add(&e.least[kind], w.begin[1], w.end[0])
			add(&e.most[kind], w.begin[0], w.end[1])
		}
	}
	return e
}

// jitter is the tolerance of the time of c. Both probes of a switch read the clock, one after the other. Between them, the emulator runs
// its other CPUs, and the host other processes: on a busy host for a millisecond on average.
func jitter(c schedwatch.Count) time.Duration {
	return c.Time/10 + 50*time.Millisecond + time.Duration(c.Switches)*time.Millisecond
}

// compare compares the counts of a CPU with the record.
func (r *record) compare(got schedwatch.CPU, want expected) {
	r.Helper()
	if got.Switches < want.switches[0] || got.Switches > want.switches[1] {
		r.Errorf("CPU %d: %d switches; ftrace has %d", got.CPU, got.Switches, want.switches)
	}
	for kind, name := range []string{"user", "bound kernel", "other kernel", "unknown"} {
		g, least, most := got.Foreign[kind], want.least[kind], want.most[kind]
		r.Logf("CPU %d: %s: %d switches, %v; ftrace has %d to %d, %v to %v", got.CPU, name, g.Switches, g.Time, least.Switches, most.Switches, least.Time, most.Time)
		if g.Switches < least.Switches || g.Switches > most.Switches {
			r.Errorf("CPU %d: switches of %s tasks differ from ftrace", got.CPU, name)
		}
		if g.Time < least.Time-jitter(least) || g.Time > most.Time+jitter(most) {
			r.Errorf("CPU %d: time of %s tasks differs from ftrace", got.CPU, name)
		}
	}
}

// threads returns the threads of a cgroup.
func (n *node) threads(group string) map[int]bool {
	n.Helper()
	text, err := os.ReadFile(filepath.Join(mount, group, "cgroup.threads"))
	if err != nil {
		n.Fatal(err)
	}
	all := make(map[int]bool)
	for field := range strings.FieldsSeq(string(text)) {
		tid, err := strconv.Atoi(field)
		if err != nil {
			n.Fatal(err)
		}
		all[tid] = true
	}
	return all
}
