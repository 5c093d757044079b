package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Watcher looks at all tasks of a machine again and again, and reads closely those that
// are, or may be, where they are not at home. It is not safe for concurrent use.
type Watcher struct {
	proc     fs.FS
	affinity func(tid int) (cpuset.Set, error)
	usage    func(cgroup string) (uint64, error)

	tasks   map[taskID]*seenTask
	look    int // the number of the last look
	first   int // that of the first look of this evidence
	began   uint64
	uptime  uint64
	at      uint64 // of the last look
	since   uint64 // of the first look of this evidence
	count   int
	unread  map[string]bool
	text    bytes.Buffer // of the file that was read last: there are thousands
	counted counters     // at the first look of this evidence
	now     counters
}

type taskID struct {
	tid   int
	start uint64
}

type seenTask struct {
	Task
	look int // the last one that it was in
}

// counters are those that the kernel keeps.
type counters struct {
	lines, softirqs []Line
	times           map[int]Times
	usage           map[string]uint64
}

// maxUnread bounds what is told of files that could not be read.
const maxUnread = 16

// NewWatcher returns a Watcher that has seen nothing. proc is /proc. affinity says where
// a task may run; with nil it is read from proc, which costs more. usage is the CPU time
// of a cgroup in nanoseconds; with nil it is not known.
func NewWatcher(proc fs.FS, affinity func(tid int) (cpuset.Set, error), usage func(cgroup string) (uint64, error)) *Watcher {
	w := &Watcher{proc: proc, affinity: affinity, usage: usage, tasks: make(map[taskID]*seenTask), began: math.MaxUint64, unread: make(map[string]bool)}
	if affinity == nil {
		w.affinity = w.allowedBy
	}
	return w
}

// Look looks once. at is the time on any clock that does not go back, in nanoseconds.
// Tasks that end while it looks are passed over. The error says that there is nothing
// to be seen in proc at all.
func (w *Watcher) Look(o Ownership, at uint64) error {
	x := newIndex(o)
	uptime, err := w.readUptime()
	if err != nil {
		return err
	}
	processes, err := fs.ReadDir(w.proc, ".")
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	w.look++
	if w.first == 0 {
		w.first, w.since = w.look, at
		w.counted = w.counters(x)
	}
	w.at, w.uptime, w.count = at, uptime, 0
	for _, p := range processes {
		if pid, err := strconv.Atoi(p.Name()); err == nil {
			w.process(x, pid)
		}
	}
	if w.count == 0 {
		return errors.New("no process can be seen in /proc: it is not mounted, or another process namespace's")
	}
	w.now = w.counters(x)
	if w.began == math.MaxUint64 { // until now nobody was new
		w.began = uptime
	}
	return nil
}

// process looks at the tasks of a process.
func (w *Watcher) process(x *index, pid int) {
	dir := strconv.Itoa(pid)
	text, err := w.read(dir + "/cgroup")
	if err != nil {
		return
	}
	cgroup, err := ParseCgroup(text)
	if err != nil {
		w.missed(dir+"/cgroup", err)
		return
	}
	tasks, err := fs.ReadDir(w.proc, dir+"/task")
	if err != nil {
		w.missed(dir+"/task", err)
		return
	}
	leader := ""
	for _, entry := range tasks {
		tid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		w.count++
		allowed, err := w.affinity(tid)
		if err != nil {
			w.missed(dir+"/task/"+entry.Name(), err)
			continue
		}
		if x.foreign(cgroup, allowed).IsEmpty() {
			continue
		}
		if r, err := w.reading(dir + "/task/" + entry.Name()); err == nil {
			if leader == "" {
				leader = w.leader(pid, r)
			}
			w.note(pid, leader, cgroup, r, allowed)
		}
	}
}

// leader is the name of a process. Threads can have names of their own.
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
	t.PID, t.Leader, t.Cgroup, t.look = pid, leader, cgroup, w.look
	t.observe(r, allowed, w.began)
}

// reading reads stat, and the time from schedstat where the kernel has it: stat counts
// in hundredths of a second.
func (w *Watcher) reading(dir string) (Reading, error) {
	text, err := w.read(dir + "/stat")
	if err != nil {
		return Reading{}, err
	}
	r, err := ParseStat(text)
	if err != nil {
		w.missed(dir+"/stat", err)
		return Reading{}, err
	}
	text, err = w.load(dir + "/schedstat")
	if err != nil {
		return r, nil //nolint:nilerr // a kernel without CONFIG_SCHED_INFO, or the task has ended since: stat has told enough
	}
	if run, err := ParseSchedstat(text); err == nil {
		r.Run = run
	} else {
		w.missed(dir+"/schedstat", err)
	}
	return r, nil
}

// read is load that remembers what could not be read.
func (w *Watcher) read(name string) ([]byte, error) {
	text, err := w.load(name)
	if err != nil {
		w.missed(name, err)
	}
	return text, err
}

// load reads a file. Its text is good until the next one is read.
func (w *Watcher) load(name string) ([]byte, error) {
	f, err := w.proc.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	w.text.Reset()
	_, err = w.text.ReadFrom(f)
	return w.text.Bytes(), err
}

// missed remembers what could not be read. Tasks that have ended are nothing to tell of.
func (w *Watcher) missed(name string, err error) {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || len(w.unread) >= maxUnread {
		return
	}
	text := err.Error()
	if !strings.Contains(text, name) {
		text = name + ": " + text
	}
	w.unread[text] = true
}

// allowedBy reads status in the place of asking the kernel.
func (w *Watcher) allowedBy(tid int) (cpuset.Set, error) {
	text, err := w.load(fmt.Sprintf("%d/status", tid)) // threads have a directory of their own, which is not listed
	if err != nil {
		return cpuset.Set{}, err
	}
	return ParseAllowed(text)
}

// readUptime is the time since the boot in units of USER_HZ.
func (w *Watcher) readUptime() (uint64, error) {
	text, err := w.load("uptime")
	if err != nil {
		return 0, fmt.Errorf("read uptime: %w", err)
	}
	return ParseUptime(text)
}

// counters reads what the kernel counts.
func (w *Watcher) counters(x *index) counters {
	c := counters{usage: make(map[string]uint64)}
	var err error
	if text, readErr := w.read("interrupts"); readErr == nil {
		if c.lines, err = ParseCounts(text); err != nil {
			w.missed("interrupts", err)
		}
	}
	if text, readErr := w.read("softirqs"); readErr == nil {
		if c.softirqs, err = ParseCounts(text); err != nil {
			w.missed("softirqs", err)
		}
	}
	if text, readErr := w.read("stat"); readErr == nil {
		if c.times, err = ParseTimes(text); err != nil {
			w.missed("stat", err)
		}
	}
	w.text = bytes.Buffer{} // with many CPUs interrupts has megabytes, and others have less than a page
	if w.usage == nil {
		return c
	}
	for _, p := range x.Places {
		if p.Exclusive {
			if n, err := w.usage(p.Cgroup); err == nil {
				c.usage[p.Cgroup] = n
			} else {
				w.missed(p.Cgroup, err)
			}
		}
	}
	return c
}

// Evidence is what has been seen since the first look, or since Evidence was asked for
// before; that one's last look is this one's first.
func (w *Watcher) Evidence() (e Evidence, unread []string) {
	e = Evidence{
		Elapsed: w.at - w.since, Looks: w.look - w.first + 1, Count: w.count,
		Lines: since(w.counted.lines, w.now.lines), Softirqs: since(w.counted.softirqs, w.now.softirqs),
		Times: make(map[int]Times), Usage: make(map[string]uint64), Affinity: w.irqAffinity(),
	}
	for cpu, t := range w.now.times {
		was := w.counted.times[cpu]
		e.Times[cpu] = Times{Tasks: less(t.Tasks, was.Tasks), Interrupts: less(t.Interrupts, was.Interrupts), Stolen: less(t.Stolen, was.Stolen)}
	}
	for cgroup, n := range w.now.usage {
		if was, known := w.counted.usage[cgroup]; known {
			e.Usage[cgroup] = less(n, was)
		}
	}
	for id, t := range w.tasks {
		e.Tasks = append(e.Tasks, t.Task)
		if t.look < w.look {
			delete(w.tasks, id)
			continue
		}
		t.Allowed, t.Ran = cpuset.Set{}, nil
	}
	for text := range w.unread {
		unread = append(unread, text)
	}
	slices.Sort(unread)
	clear(w.unread)
	w.first, w.since, w.began, w.counted = w.look, w.at, w.uptime, w.now
	slices.SortFunc(e.Tasks, func(a, b Task) int { return cmp.Compare(a.TID, b.TID) })
	return e, unread
}

// irqAffinity is where the interrupts of devices may fire that have fired at all: the
// CPUs that the kernel has chosen of those that it may, where it tells.
func (w *Watcher) irqAffinity() map[string]cpuset.Set {
	all := make(map[string]cpuset.Set)
	for _, l := range w.now.lines {
		if !l.ofDevice() || len(l.Counts) == 0 {
			continue
		}
		for _, file := range []string{"effective_affinity_list", "smp_affinity_list"} {
			text, err := w.load("irq/" + l.Name + "/" + file)
			if err != nil {
				continue
			}
			set, err := cpuset.Parse(strings.TrimSpace(string(text)))
			if err != nil {
				w.missed("irq/"+l.Name+"/"+file, err)
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

// less is a difference of counters; 0 where one has gone back (/proc/stat does so by a
// tick at times).
func less(now, before uint64) uint64 {
	if now < before {
		return 0
	}
	return now - before
}
