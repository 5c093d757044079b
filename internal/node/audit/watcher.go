package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Watcher scans all tasks, and reads the files of foreign ones. It is not safe for concurrent use.
type Watcher struct {
	proc     fs.FS
	affinity func(tid int) (cpuset.Set, error)
	usage    func(cgroup string) (uint64, error)

	tasks   map[taskID]*seenTask
	scans   int // number of the last scan
	first   int // number of the first scan of this evidence
	began   uint64
	uptime  uint64
	at      uint64 // time of the last scan
	since   uint64 // time of the first scan of this evidence
	count   int
	unread  map[string]bool
	text    bytes.Buffer // reused for each of thousands of files
	tids    []int        // reused for each process
	counted counters     // at the first scan of this evidence
	now     counters
}

type taskID struct {
	tid   int
	start uint64
}

type seenTask struct {
	Task
	lastScan int // the last scan that found it
}

type counters struct {
	lines, softirqs []Line
	times           map[int]Times
	usage           map[string]uint64
}

const (
	maxUnread = 16
	shortFile = 1 << 10 // bytes; few cgroups have longer paths
)

// NewWatcher returns a Watcher without observations. proc is /proc. affinity returns the CPUs on
// which a task may run. usage returns the CPU time of a cgroup in nanoseconds.
func NewWatcher(proc fs.FS, affinity func(tid int) (cpuset.Set, error), usage func(cgroup string) (uint64, error)) *Watcher {
	return &Watcher{proc: proc, affinity: affinity, usage: usage, tasks: make(map[taskID]*seenTask), began: math.MaxUint64, unread: make(map[string]bool)}
}

// Scan scans all tasks once. at is the time in nanoseconds, on a monotonic clock. Tasks that end
// during the scan are skipped. Scan returns an error if proc shows no task at all.
func (w *Watcher) Scan(o Ownership, at uint64) error {
	x := newIndex(o)
	text, err := w.load("uptime", false)
	if err != nil {
		return fmt.Errorf("read uptime: %w", err)
	}
	uptime, err := ParseUptime(text) // in units of USER_HZ
	if err != nil {
		return err
	}
	processes, err := fs.ReadDir(w.proc, ".")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	w.scans++
	if w.first == 0 {
		w.first, w.since = w.scans, at
		w.counted = w.counters(x)
	}
	w.at, w.uptime, w.count = at, uptime, 0
	for _, p := range processes {
		if pid, err := strconv.Atoi(p.Name()); err == nil {
			w.process(x, pid)
		}
	}
	if w.count == 0 {
		return errors.New("/proc shows no process: it is not mounted, or belongs to another PID namespace")
	}
	w.now = w.counters(x)
	if w.began == math.MaxUint64 { // the first scan finds no new tasks
		w.began = uptime
	}
	return nil
}

func (w *Watcher) process(x *index, pid int) {
	dir := strconv.Itoa(pid)
	text, err := w.read(dir + "/cgroup")
	if err != nil {
		return
	}
	cgroup, err := ParseCgroup(text)
	if err != nil {
		w.noteError(dir+"/cgroup", err)
		return
	}
	tids, err := w.threads(dir, pid)
	if err != nil {
		w.noteError(dir+"/task", err)
		return
	}
	leader := ""
	for _, tid := range tids {
		w.count++
		allowed, err := w.affinity(tid)
		if err == nil && x.foreign(cgroup, allowed).IsEmpty() {
			continue
		}
		task := dir + "/task/" + strconv.Itoa(tid)
		if err != nil {
			w.noteError(task, err)
			continue
		}
		if r, err := w.reading(task); err == nil {
			if leader == "" {
				leader = w.leader(pid, r)
			}
			w.note(pid, leader, cgroup, r, allowed)
		}
	}
}

// threads returns the threads of a process. Most processes are kernel threads. The kernel counts the threads in the
// number of links (proc_task_getattr in fs/proc/base.c), so that only a process with several needs a list.
func (w *Watcher) threads(dir string, pid int) ([]int, error) {
	const links = 2 // of a directory without subdirectories
	info, err := fs.Stat(w.proc, dir+"/task")
	if err != nil {
		return nil, err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink == links+1 {
		w.tids = append(w.tids[:0], pid)
		return w.tids, nil
	}
	entries, err := fs.ReadDir(w.proc, dir+"/task")
	w.tids = w.tids[:0]
	for _, entry := range entries {
		if tid, err := strconv.Atoi(entry.Name()); err == nil {
			w.tids = append(w.tids, tid)
		}
	}
	return w.tids, err
}

// leader returns the name of a process. Its threads can have other names.
func (w *Watcher) leader(pid int, r Reading) string {
	if r.TID == pid {
		return r.Comm
	}
	text, err := w.read(strconv.Itoa(pid) + "/comm")
	if err != nil {
		return r.Comm
	}
	return strings.TrimSuffix(string(text), "\n")
}

func (w *Watcher) note(pid int, leader, cgroup string, r Reading, allowed cpuset.Set) {
	id := taskID{r.TID, r.Start}
	t := w.tasks[id]
	if t == nil {
		t = &seenTask{}
		w.tasks[id] = t
	}
	t.PID, t.Leader, t.Cgroup, t.lastScan = pid, leader, cgroup, w.scans
	t.observe(r, allowed, w.began)
}

// reading prefers the exact time of schedstat to the 10 ms units of stat.
func (w *Watcher) reading(dir string) (Reading, error) {
	text, err := w.read(dir + "/stat")
	if err != nil {
		return Reading{}, err
	}
	r, err := ParseStat(text)
	if err != nil {
		w.noteError(dir+"/stat", err)
		return Reading{}, err
	}
	text, err = w.load(dir+"/schedstat", false)
	if err != nil {
		return r, nil //nolint:nilerr // a kernel without CONFIG_SCHED_INFO, or the task has ended: stat suffices
	}
	if run, err := ParseSchedstat(text); err == nil {
		r.Run = run
	} else {
		w.noteError(dir+"/schedstat", err)
	}
	return r, nil
}

// read reads a file that the kernel prints in one piece, and records errors.
func (w *Watcher) read(name string) ([]byte, error) {
	text, err := w.load(name, false)
	if err != nil {
		w.noteError(name, err)
	}
	return text, err
}

// load reads a file. The text is valid until the next call. Unless the kernel prints the file in several
// pieces, load does not read the end of a short one.
func (w *Watcher) load(name string, inPieces bool) ([]byte, error) {
	f, err := w.proc.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	w.text.Reset()
	if !inPieces {
		w.text.Grow(shortFile)
		piece := w.text.AvailableBuffer()[:shortFile]
		n, err := f.Read(piece)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		if w.text.Write(piece[:n]); n < shortFile {
			return w.text.Bytes(), nil
		}
	}
	_, err = w.text.ReadFrom(f)
	return w.text.Bytes(), err
}

// noteError records a read error. It ignores errors of tasks that have ended.
func (w *Watcher) noteError(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || len(w.unread) >= maxUnread {
		return
	}
	text := err.Error()
	if !strings.Contains(text, name) {
		text = name + ": " + text
	}
	w.unread[text] = true
}

// parsed reads and parses a file, and records errors.
func parsed[T any](w *Watcher, name string, parse func([]byte) (T, error)) (v T) {
	text, err := w.load(name, true)
	if err == nil {
		v, err = parse(text)
	}
	if err != nil {
		w.noteError(name, err)
	}
	return v
}

func (w *Watcher) counters(x *index) counters {
	c := counters{
		lines: parsed(w, "interrupts", ParseCounts), softirqs: parsed(w, "softirqs", ParseCounts), times: parsed(w, "stat", ParseTimes),
		usage: make(map[string]uint64),
	}
	w.text = bytes.Buffer{} // interrupts has megabytes on machines with many CPUs; most files have less than a page
	for _, p := range x.Places {
		if p.Exclusive {
			if n, err := w.usage(p.Cgroup); err == nil {
				c.usage[p.Cgroup] = n
			} else {
				w.noteError(p.Cgroup, err)
			}
		}
	}
	return c
}

// Evidence returns the observations since the first scan, or since the previous call. The last
// scan of a call is the first scan of the next one. unread lists the read errors.
func (w *Watcher) Evidence() (e Evidence, unread []string) {
	e = Evidence{
		Elapsed: w.at - w.since, Scans: w.scans - w.first + 1, Count: w.count,
		Lines: since(w.counted.lines, w.now.lines), Softirqs: since(w.counted.softirqs, w.now.softirqs),
		Times: make(map[int]Times), Usage: make(map[string]uint64), Affinity: w.irqAffinity(),
	}
	for cpu, t := range w.now.times {
		was := w.counted.times[cpu]
		e.Times[cpu] = Times{Tasks: growth(t.Tasks, was.Tasks), Interrupts: growth(t.Interrupts, was.Interrupts), Stolen: growth(t.Stolen, was.Stolen)}
	}
	for cgroup, n := range w.now.usage {
		if was, known := w.counted.usage[cgroup]; known {
			e.Usage[cgroup] = growth(n, was)
		}
	}
	for id, t := range w.tasks {
		e.Tasks = append(e.Tasks, t.Task)
		if t.lastScan < w.scans {
			delete(w.tasks, id)
			continue
		}
		t.Allowed, t.Ran = cpuset.Set{}, nil
	}
	unread = slices.Sorted(maps.Keys(w.unread))
	clear(w.unread)
	w.first, w.since, w.began, w.counted = w.scans, w.at, w.uptime, w.now
	slices.SortFunc(e.Tasks, func(a, b Task) int { return cmp.Compare(a.TID, b.TID) })
	return e, unread
}

// irqAffinity returns the CPUs of device interrupts that have fired, effective ones first.
func (w *Watcher) irqAffinity() map[string]cpuset.Set {
	all := make(map[string]cpuset.Set)
	for _, l := range w.now.lines {
		if !l.isDevice() || len(l.Counts) == 0 {
			continue
		}
		for _, file := range []string{"effective_affinity_list", "smp_affinity_list"} {
			text, err := w.load("irq/"+l.Name+"/"+file, false)
			if err != nil {
				continue
			}
			set, err := cpuset.Parse(strings.TrimSpace(string(text)))
			if err != nil {
				w.noteError("irq/"+l.Name+"/"+file, err)
				continue
			}
			if !set.IsEmpty() {
				all[l.Name] = set
				break
			}
		}
	}
	return all
}

// growth returns the increment, or 0: /proc/stat sometimes decreases by a tick.
func growth(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
