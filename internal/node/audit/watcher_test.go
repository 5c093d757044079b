package audit_test

import (
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// proc is a fake of /proc.
type proc fstest.MapFS

func newProc() proc {
	p := proc{}
	p.file("uptime", "100.00 50.00\n")
	p.file("interrupts", "  CPU0 CPU5\n 25: 1 2 PCI-MSIX 1-edge eth0\nLOC: 5 6 Local timer interrupts\n")
	p.file("softirqs", "  CPU0 CPU5\n TIMER: 1 2\n")
	p.file("stat", "cpu5 1 0 0 0 0 0 0 0 0 0\n")
	return p
}

func (p proc) file(name, text string) { p[name] = &fstest.MapFile{Data: []byte(text)} }

// task adds a task. start is in hundredths of a second, ran in milliseconds.
func (p proc) task(pid, tid int, comm, cgroup string, start, cpu, ran int, allowed string) {
	stat := fmt.Sprintf("%d (%s) R 1 0 0 0 -1 0 0 0 0 0 %d 0 0 0 20 0 1 0 %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 %d 0 0 0 0 0\n", tid, comm, ran/10, start, cpu)
	if pid == tid {
		p.file(fmt.Sprintf("%d/cgroup", pid), "0::/"+cgroup+"\n")
		p.file(fmt.Sprintf("%d/comm", pid), comm+"\n")
	}
	dir := fmt.Sprintf("%d/task/%d/", pid, tid)
	p.file(dir+"stat", stat)
	p.file(dir+"schedstat", fmt.Sprintf("%d 0 0\n", ran*1_000_000))
	p.file(fmt.Sprintf("%d/status", tid), "Name:\tx\nCpus_allowed_list:\t"+allowed+"\n")
	if pid != tid {
		delete(p, fmt.Sprintf("%d/task", tid))
	}
}

func (p proc) end(pid int) {
	for _, f := range []string{"cgroup", "comm", "status", fmt.Sprintf("task/%d/stat", pid), fmt.Sprintf("task/%d/schedstat", pid)} {
		delete(p, fmt.Sprintf("%d/%s", pid, f))
	}
}

func (p proc) watcher() *audit.Watcher {
	return audit.NewWatcher(fstest.MapFS(p), p.affinity, usage)
}

// affinity returns the CPUs in the status of a task.
func (p proc) affinity(tid int) (cpuset.Set, error) {
	text, err := fs.ReadFile(fstest.MapFS(p), fmt.Sprintf("%d/status", tid))
	if err != nil {
		return cpuset.Set{}, err
	}
	return audit.ParseAllowed(text)
}

func usage(string) (uint64, error) { return 7, nil }

func scan(t *testing.T, w *audit.Watcher, at uint64) {
	t.Helper()
	if err := w.Scan(node(), at); err != nil {
		t.Fatal(err)
	}
}

// TestWatch checks that CPU time between scans counts for the last CPU of each thread. The CPU
// time of a new task counts from its start. CPU time before the first scan does not count.
func TestWatch(t *testing.T) {
	p := newProc()
	p.task(10, 10, "hog", "user.slice", 50, 4, 5000, "0-7")
	p.task(10, 11, "hog-poll", "user.slice", 50, 2, 10, "4")
	p.task(12, 12, "du", "kubepods/a/du", 50, 4, 100, "4-5")
	w := p.watcher()
	scan(t, w, 0)
	p.task(10, 10, "hog", "user.slice", 50, 5, 5200, "0-7")
	p.task(10, 11, "hog-poll", "user.slice", 50, 4, 40, "4")
	p.task(13, 13, "once", "user.slice", 10001, 4, 30, "4")
	p.file("interrupts", "  CPU0 CPU5\n 25: 1 5 PCI-MSIX 1-edge eth0\nLOC: 5 8 Local timer interrupts\n")
	p.file("irq/25/smp_affinity_list", "0-7\n")
	p.file("irq/25/effective_affinity_list", "5\n")
	scan(t, w, second)
	p.end(13)
	p.task(14, 14, "late", "user.slice", 60, 4, 9000, "4") // not new: earlier scans did not find it
	scan(t, w, 2*second)
	e, unread := w.Evidence()
	if len(unread) > 0 {
		t.Errorf("not read: %q", unread)
	}
	r := audit.Evaluate(node(), e)
	want := []findingLine{
		{audit.Process, "user.slice", "hog", "du", "4-5", "4-5", 0.23, 0, 2},
		{audit.Process, "user.slice", "once", "du", "4", "4", 0.03, 0, 1},
		{audit.Interrupt, "", "IRQ 25 eth0", "du", "5", "5", 0, 3, 0},
		{audit.Process, "user.slice", "hog", "ptp.service", "6", "", 0, 0, 1},
		{audit.Process, "user.slice", "late", "du", "4", "", 0, 0, 1},
	}
	if diff := cmp.Diff(want, findingLines(r)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if r.Scans != 3 || r.Tasks != 4 || r.Seconds != 2 {
		t.Errorf("%d scans of %d tasks in %v s; want 3 at 4 in 2", r.Scans, r.Tasks, r.Seconds)
	}
	if tasks := r.Findings[0].Tasks; tasks[0].TID != 10 || tasks[1].TID != 11 || tasks[1].Name != "hog-poll" {
		t.Errorf("tasks of the hog: %+v", tasks)
	}

	// The next evidence starts at the last scan.
	p.task(10, 11, "hog-poll", "user.slice", 50, 4, 50, "4")
	scan(t, w, 3*second)
	e, _ = w.Evidence()
	r = audit.Evaluate(node(), e).OnlyRan()
	if diff := cmp.Diff([]findingLine{{audit.Process, "user.slice", "hog", "du", "4-5", "4", 0.01, 0, 2}}, findingLines(r)); diff != "" || r.Seconds != 1 {
		t.Errorf("the next %v s (-want +got):\n%s", r.Seconds, diff)
	}
}

// TestDirectory checks that a Watcher finds the same in a directory, and with texts of any length. The number of links
// of the directory replaces a list of one thread.
func TestDirectory(t *testing.T) {
	p := newProc()
	for i, length := range []int{1, 1018, 1019, 1020, 1021, 3000} { // around the length of the first read
		pid := 10 * (i + 1)
		p.task(pid, pid, "hog", strings.Repeat("c", length), 50, 4, 5000, "0-7")
		if i%2 == 1 {
			p.task(pid, pid+1, "hog-poll", "", 50, 2, 10, "4")
		}
	}
	var found [2]audit.Evidence
	for i, root := range []fs.FS{fstest.MapFS(p), kernelfs.Dir(p.write(t))} {
		w := audit.NewWatcher(root, p.affinity, usage)
		scan(t, w, 0)
		scan(t, w, second)
		var unread []string
		if found[i], unread = w.Evidence(); len(unread) > 0 || found[i].Count != 9 || len(found[i].Tasks) != 9 {
			t.Errorf("%d of %d tasks, unread %v; want 9", len(found[i].Tasks), found[i].Count, unread)
		}
	}
	if d := cmp.Diff(found[0], found[1]); d != "" {
		t.Errorf("a map and a directory (-map +directory):\n%s", d)
	}
}

// TestWatchBadFiles checks that a malformed file loses only its own content, and is reported.
func TestWatchBadFiles(t *testing.T) {
	p := newProc()
	p.task(10, 10, "hog", "user.slice", 50, 4, 5000, "4")
	p.task(11, 11, "bad", "user.slice", 50, 4, 5000, "4")
	p.file("11/task/11/stat", "11 (bad")
	p.task(12, 12, "odd", "../x", 50, 4, 5000, "4")
	p.task(13, 13, "ended", "user.slice", 50, 4, 5000, "4")
	delete(p, "13/task/13/stat")
	delete(p, "10/task/10/schedstat") // as without CONFIG_SCHED_INFO
	p.file("interrupts", "what\n")
	w := p.watcher()
	scan(t, w, 0)
	p.task(10, 10, "hog", "user.slice", 50, 4, 6000, "4")
	delete(p, "10/task/10/schedstat")
	scan(t, w, second)
	e, unread := w.Evidence()
	if diff := cmp.Diff([]findingLine{{audit.Process, "user.slice", "hog", "du", "4", "4", 1, 0, 1}}, findingLines(audit.Evaluate(node(), e))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	if len(unread) != 3 {
		t.Errorf("not read: %q; want what is wrong with interrupts and with tasks 11 and 12", unread)
	}
	if err := audit.NewWatcher(fstest.MapFS{"uptime": p["uptime"]}, p.affinity, usage).Scan(node(), 0); err == nil {
		t.Error("Scan of an empty tree = nil; want an error")
	}
}

// TestScanKeepsLittle checks that only the counts of /proc/interrupts stay in memory. The file
// has megabytes on a machine with many CPUs.
func TestScanKeepsLittle(t *testing.T) {
	const cpus, lines = 2048, 200
	var interrupts strings.Builder
	for cpu := range cpus {
		fmt.Fprintf(&interrupts, " CPU%d", cpu)
	}
	for line := range lines {
		fmt.Fprintf(&interrupts, "\n%d:%s edge", line, strings.Repeat("          0", cpus))
	}
	p := newProc()
	p.task(7, 7, "init", "init.scope", 0, 0, 0, "0-1")
	p.file("interrupts", interrupts.String()+"\n")
	size := uint64(interrupts.Len())
	interrupts.Reset()
	before := live()
	w := p.watcher()
	scan(t, w, 1)
	if kept := int64(live() - before); kept > int64(size/8) { //nolint:gosec // far from both ends
		t.Errorf("%d KiB are kept of %d", kept>>10, size>>10)
	}
	if e, unread := w.Evidence(); len(e.Lines) != lines || e.Lines[0].Text != "edge" || len(unread) != 0 {
		t.Errorf("%d lines, %v", len(e.Lines), unread)
	}
}

// live returns the bytes of the heap in use.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
