package liveaudit

import (
	"context"
	"errors"
	"maps"
	"os"
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
		listeners sync.WaitGroup
		counts    = newCounts()
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
			a.result.Store(nil)
			a.wake() // the findings are gone
			continue
		}
		p := a.loaded()
		if p == nil {
			var err error
			if p, err = open(); err != nil {
				a.refused(err)
				due.Reset(retryInterval)
				continue
			}
			counts.forget()
			a.load(p)
			listeners.Go(func() { a.listen(p) })
		}
		a.read(p, counts)
		due.Reset(readInterval)
	}
}

// Result returns the state of the audit; nil while it is off.
func (a *Audit) Result() *telemetry.LiveAudit { return a.result.Load() }

func (a *Audit) loaded() Program {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.program
}

// load makes the program watch the CPUs that have an owner now.
func (a *Audit) load(p Program) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.program = p
	a.own()
}

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
		isNew := a.note(task)
		a.mu.Unlock()
		if isNew {
			a.wake()
		}
	}
}

// noteKey bounds the tasks of a reading that become findings: one foreign task and one own task of an
// owner. Each takes system calls while the event loop may wait for the mutex, and authors of pods choose
// the number of tasks.
type noteKey struct {
	owner string
	own   bool
}

// read adds the counts since the previous reading.
func (a *Audit) read(p Program, counts *counts) {
	r, err := p.Read()
	if err != nil {
		counts.failed++
		a.log.Warn("live audit: read", "error", err)
	}
	a.mu.Lock()
	isNew, moved := false, a.moved
	a.moved = make(map[int]bool)
	noted := make(map[noteKey]bool)
	for _, tasks := range [][]schedwatch.Task{r.Tasks, r.Running} {
		for _, t := range tasks {
			h := a.held[t.CPU]
			if h == nil {
				continue
			}
			key := noteKey{h.key, h.owns(t.Cgroup)}
			if key.own {
				counts.omit(t)
			}
			if moved[t.CPU] || t.Kind != schedwatch.User || noted[key] { // moved: the task may have met another owner
				continue
			}
			noted[key] = true
			isNew = a.note(t) || isNew
		}
	}
	if err != nil { // rows that were not read stay in the program, and the next reading returns them
		maps.Copy(a.moved, moved)
	}
	if err == nil {
		counts.add(r)
	}
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
