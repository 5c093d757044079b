package liveaudit

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// readInterval is the time between two readings of the program. A reading removes its rows, of
// which the program holds 4,096. retryInterval is the pause after the kernel has refused the program.
const (
	readInterval  = 10 * time.Second
	retryInterval = 5 * time.Minute
)

// Run loads the program with open while the audit is on, and reads it, until ctx ends.
func (a *Audit) Run(ctx context.Context, open func() (Program, error)) {
	var (
		p         Program // nil while it is not loaded
		listeners sync.WaitGroup
		counts    = new(counts)
		due       = time.NewTimer(time.Hour)
	)
	due.Stop() // until the audit is on
	defer listeners.Wait()
	defer a.unload()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		case <-due.C:
		}
		if !a.IsOn() {
			due.Stop()
			a.unload()
			p = nil
			a.result.Store(nil)
			a.wake() // the findings are gone
			continue
		}
		if p == nil {
			loaded, err := open()
			if err != nil {
				a.refused(err)
				due.Reset(retryInterval)
				continue
			}
			p = loaded
			counts.forget()
			a.mu.Lock()
			a.program = p
			a.own()
			a.mu.Unlock()
			listeners.Go(func() { a.listen(loaded) })
		}
		a.read(p, counts)
		due.Reset(readInterval)
	}
}

// Result returns the state of the audit; nil while it is off.
func (a *Audit) Result() *telemetry.LiveAudit { return a.result.Load() }

// unload removes the program from the kernel.
func (a *Audit) unload() {
	a.mu.Lock()
	p := a.program
	a.program, a.watched = nil, cpuset.Set{}
	clear(a.findings)
	a.mu.Unlock()
	if p != nil {
		if err := p.Close(); err != nil {
			a.log.Warn("live audit: remove the program", "error", err)
		}
	}
}

// refused notes why the program is not loaded.
func (a *Audit) refused(err error) {
	if was := a.result.Load(); was == nil || was.Unavailable != err.Error() {
		a.log.Warn("live audit: the sampled audit remains", "error", err)
	}
	a.result.Store(&telemetry.LiveAudit{Unavailable: err.Error()})
	a.wake()
}

// listen receives reports until the program is closed.
func (a *Audit) listen(p Program) {
	for {
		task, err := p.Next()
		if err != nil {
			if !errors.Is(err, os.ErrClosed) {
				a.log.Error("live audit: reports end", "error", err)
			}
			return
		}
		a.mu.Lock()
		a.reports++
		isNew := a.note(a.ownerAt(task.CPU, task.Owner), task)
		a.mu.Unlock()
		if isNew {
			a.wake()
		}
	}
}

// noteKey bounds the tasks of a reading that become findings: one foreign task and one own task of an
// owner. Each takes system calls while the event loop may wait for the mutex, and authors of pods choose
// the number of tasks. The counts have all of them.
type noteKey struct {
	owner string
	own   bool
}

// read adds the counts since the previous reading.
func (a *Audit) read(p Program, counts *counts) {
	a.mu.Lock()
	before := a.history.next(a.held, a.now())
	a.mu.Unlock()
	r, err := p.Read()
	if err != nil {
		counts.failed++
		a.log.Warn("live audit: read", "error", err)
	}
	a.mu.Lock()
	whole := before.and(a.history.now) // a task that still runs has run since the begin of the present watch
	if err != nil {                    // the next reading returns the rows of this interval, too
		a.history.now = whole
	} else {
		counts.add(r, whole.isOwn, a.history.now.isOwn)
	}
	noted := make(map[noteKey]bool)
	isNew := a.noteAll(r.Running, a.history.now, noted)
	isNew = a.noteAll(r.Tasks, whole, noted) || isNew
	isOver := a.expire()
	shown := counts.shown(a.reports, a.watched)
	a.mu.Unlock()
	was := a.result.Load()
	if a.IsOn() {
		a.result.Store(shown)
	}
	if isNew || isOver || was != nil && was.Unavailable != "" {
		a.wake()
	}
}

// noteAll adds the user tasks of a reading to the findings, and reports whether an owner has its first finding. On a CPU
// with several owners, the owner at the time of a task is unknown. A finding names the task with the most time. a.mu is
// held.
func (a *Audit) noteAll(tasks []schedwatch.Task, in interval, noted map[noteKey]bool) (isNew bool) {
	slices.SortStableFunc(tasks, func(a, b schedwatch.Task) int { return cmp.Compare(b.Time, a.Time) })
	for i := range tasks {
		t := &tasks[i]
		h := in.owner(t.CPU)
		if h == nil || t.Kind != schedwatch.User {
			continue
		}
		key := noteKey{h.key, h.owns(t.Cgroup)}
		if noted[key] {
			continue
		}
		noted[key] = true
		isNew = a.note(h, *t) || isNew
	}
	return isNew
}
