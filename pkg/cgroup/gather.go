package cgroup

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Threads is implemented by a [Tree] whose cgroups have threads.
type Threads interface {
	// Inside reports whether cpus contain all online CPUs that a thread may run on
	// (sched_getaffinity(2)).
	Inside(tid int, cpus cpuset.Set) (bool, error)
	// Unbind lets a thread run on all CPUs of its cpuset (sched_setaffinity(2) of
	// all CPUs, which the kernel cuts down to them).
	Unbind(tid int) error
}

// Gathered is the result of Gather and of a [ThreadScan].
type Gathered struct {
	Back int // number of threads that were moved back to the CPUs of their cgroup
	// Outside is the number of threads that could not be moved, and Stuck has the first ids, at most maxStuck.
	// Why is the kernel's reason for the first one: EPERM without CAP_SYS_NICE, EINVAL for workers of io_uring,
	// which before kernel 6.12 are made without regard to the cpuset.
	Outside int
	Stuck   []int
	Why     error
	// More reports whether threads or cgroups were left out because of gatherThreads and gatherCgroups. A
	// ThreadScan reads all of them.
	More      bool
	Unread    int // number of cgroups below the first one that could not be read, and UnreadErr is the first error
	UnreadErr error
}

const (
	// gatherRounds is the maximum number of rounds of Gather. A thread is outside because a thread outside has forked it
	// while cpuset.cpus was written. Each round ends such a line of threads. Only a process that goes on to write cpusets
	// or to move threads needs more rounds.
	gatherRounds = 16
	// gatherThreads and gatherCgroups bound one round: the event loop calls Gather for each container, and pods choose
	// how many threads and cgroups they have. A container that reaches both bounds takes 0.8 ms of CPU time
	// (BenchmarkGather on an AMD EPYC), so 250 of them take 0.2 s of a resync.
	gatherThreads = 1024
	gatherCgroups = 16
	// gatherAsked bounds the questions of all rounds: no round begins after so many.
	gatherAsked = 4 * gatherThreads
	maxStuck    = 8 // maximum number of ids in Gathered
)

// Gather moves the threads of a cgroup, and of cgroups below it, to the CPUs of the cgroup that each thread is in. It
// returns ErrGone if p does not exist. It reads p, then crun's cgroup in p, then others below, within the bounds of Gathered.More. Errors below
// p are part of the result, because a container can cause them.
//
// The kernel leaves threads outside without a notice. A thread that is forked while cpuset.cpus is written can keep the
// former CPUs of its parent. update_tasks_cpumask has passed the end of the list of tasks when cpuset_fork copies the
// parent's old mask (kernel/cgroup/cpuset.c). On 6.12 this happened ten times in 7,000 writes next to a process that forks
// without pause. It also happened to a pause container at the start of its pod. No file of the cgroup shows it. A write
// of the same value has no effect.
//
// Gather does not change a narrower affinity of a thread. It does nothing on a tree that does not implement Threads.
func (f *FS) Gather(p Path) (Gathered, error) {
	r := f.Reader()
	defer r.Rest()
	return r.Gather(p)
}

// Gather is [FS.Gather].
func (r *Reader) Gather(p Path) (Gathered, error) {
	g := r.gathering()
	if g == nil {
		return Gathered{}, nil
	}
	back, asked := 0, 0
	for round := 1; ; round++ {
		g.Gathered, g.asked, g.cgroups = Gathered{}, 0, 0
		err := g.tree(p)
		found := g.Gathered
		back, asked = back+found.Back, asked+g.asked
		again := err == nil && found.Back > 0
		if again && round < gatherRounds && asked < gatherAsked {
			continue
		}
		found.Back, found.More = back, found.More || again
		return found, err
	}
}

// gathering moves the threads of one cgroup after the other. A Reader has one, so that a read of few threads
// allocates nothing.
type gathering struct {
	r       *Reader
	threads Threads
	visit   func(part []byte) error // its method read
	each    func(tid int) error     // its method thread
	limited bool                    // to gatherThreads and gatherCgroups
	stop    func() error            // optional: a reason to stop within a list

	// The cgroup that is read.
	effective cpuset.Set
	at        Path
	ids       idParser
	stopped   error // why the list is not read to its end

	asked, cgroups int
	Gathered
}

// gathering returns the gathering of the Reader, or nil if the tree has no threads that may be moved.
func (r *Reader) gathering() *gathering {
	threads, ok := r.fs.tree.(Threads)
	if !ok || r.fs.readOnly {
		return nil
	}
	if r.gather == nil {
		g := &gathering{r: r, threads: threads, limited: true}
		g.visit, g.each = g.read, g.thread
		r.gather = g
	}
	return r.gather
}

// tree moves the threads of p, and of cgroups below it.
func (g *gathering) tree(p Path) error {
	o, err := g.r.open(p)
	if err == nil {
		err = g.cgroup(&o)
	}
	if err == nil {
		g.below(p)
	}
	return err
}

// below moves the threads of the cgroups below p, crun's cgroup first, because the processes of the container are in it.
func (g *gathering) below(p Path) {
	children, more, err := g.r.children(p, gatherCgroups-g.cgroups)
	if err != nil {
		g.fail(err)
		return
	}
	g.More = g.More || more
	if len(children) == 0 {
		return
	}
	if inner, ok := p.Inner(); ok && (more || slices.Contains(children, inner)) {
		children = slices.Insert(slices.DeleteFunc(children, func(c Path) bool { return c == inner }), 0, inner)
	}
	for _, child := range children {
		if g.cgroups >= gatherCgroups || g.asked >= gatherThreads {
			g.More = true
			return
		}
		g.cgroups++
		if err := g.tree(child); err != nil {
			g.fail(err)
		}
	}
}

// fail notes a cgroup that could not be read. A cgroup that is gone has no threads.
func (g *gathering) fail(err error) {
	if errors.Is(err, ErrGone) {
		return
	}
	if g.Unread++; g.Unread == 1 {
		g.UnreadErr = err
	}
}

// cgroup moves the threads of one cgroup to its own CPUs: a partition has CPUs that its parent does not have.
func (g *gathering) cgroup(o *opened) (err error) {
	if g.effective, err = o.effectiveOf(o.path); err != nil {
		return err
	}
	g.at, g.ids, g.stopped = o.path, idParser{}, nil
	if err = o.readParts("cgroup.threads", g.visit); err == nil {
		g.stopped = g.ids.end(g.each)
	}
	switch {
	case errors.Is(g.stopped, errEnough):
		g.More = true
		return nil
	case g.stopped != nil:
		return g.stopped
	}
	return err
}

// errEnough ends a list at the bound of threads.
var errEnough = errors.New("enough threads")

func (g *gathering) read(part []byte) error {
	if g.stop != nil {
		g.stopped = g.stop()
	}
	if g.stopped == nil {
		g.stopped = g.ids.parse(part, g.each)
	}
	return g.stopped
}

// thread moves a thread if it may run outside of the CPUs of its cgroup.
func (g *gathering) thread(tid int) error {
	if tid == 0 { // a thread of another PID namespace, or one that is ending
		return nil
	}
	if g.limited && g.asked >= gatherThreads {
		return errEnough
	}
	g.asked++
	if in, err := inside(g.threads, tid, g.effective); err != nil || in {
		return err
	}
	// The set is read again before the thread counts as outside: to take the affinity
	// of its own from a thread because the set has just grown would be worse.
	effective, err := g.r.nearestEffective(g.at)
	if err != nil {
		return err
	}
	g.effective = effective
	if in, err := inside(g.threads, tid, effective); err != nil || in {
		return err
	}
	switch err := g.threads.Unbind(tid); {
	case err == nil:
		g.Back++
	case !errors.Is(err, syscall.ESRCH):
		if g.Outside++; g.Outside == 1 {
			g.Why = err
		}
		if g.Outside <= maxStuck {
			g.Stuck = append(g.Stuck, tid)
		}
	}
	return nil
}

// inside reports whether a thread may only run on effective, or has ended.
func inside(threads Threads, tid int, effective cpuset.Set) (bool, error) {
	in, err := threads.Inside(tid, effective)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("ask for the affinity of thread %d: %w", tid, err)
	}
	return in, nil
}

// idParser reads a list of ids that comes in parts, which can end within an id. The zero value is ready.
type idParser struct {
	id    int
	begun bool
	bad   bool // not an id: skipped up to the next space
}

// maxID is above the largest id of a thread (PID_MAX_LIMIT, 4,194,304).
const maxID = 1 << 30

// parse calls visit with each id that ends in the part, until an error.
func (p *idParser) parse(part []byte, visit func(id int) error) error {
	for _, c := range part {
		switch {
		case c == '\n' || c == ' ' || c == '\t':
			if err := p.end(visit); err != nil {
				return err
			}
		case c < '0' || c > '9' || p.id > maxID/10:
			p.bad = true
		default:
			p.id, p.begun = 10*p.id+int(c-'0'), true
		}
	}
	return nil
}

func (p *idParser) end(visit func(id int) error) error {
	now := *p
	*p = idParser{}
	if !now.begun || now.bad {
		return nil
	}
	return visit(now.id)
}
