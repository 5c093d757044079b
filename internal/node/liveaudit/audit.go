// Package liveaudit keeps the owners of CPUs in the eBPF program of package schedwatch, and turns
// its counts into values and findings. The event loop calls Begin before the first write of a pass,
// End after the last one, and Gone for a removed cgroup. So the program compares no task with a stale
// owner. A CPU with the same owner before and after a pass stays watched without a gap.
//
// A goroutine of its own loads the program, reads it and receives its reports. The mutex of an Audit
// guards the owners; it is never held during a read. No decision about CPUs depends on the results.
package liveaudit

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Program is the part of [schedwatch.Program] that an Audit uses. An Audit calls Release and Own
// one at a time.
type Program interface {
	Release(cpus cpuset.Set)
	Own(owners []schedwatch.Owner) (watched cpuset.Set, err error)
	Read() (schedwatch.Reading, error)
	Next() (schedwatch.Task, error)
	Close() error
}

// Audit is the live audit of a node.
type Audit struct {
	log     *slog.Logger
	exists  func(cgroup string) bool
	now     func() time.Time
	wake    func()        // a problem has begun or ended
	changed chan struct{} // the audit is switched on or off
	result  atomic.Pointer[telemetry.LiveAudit]

	mu       sync.Mutex // guards the fields below
	on       bool
	program  Program             // Nil while it is not loaded.
	held     map[int]*holder     // Owners of CPUs in force, by CPU.
	watched  cpuset.Set          // CPUs that the program watches.
	history  history             // Earlier owners of CPUs.
	released bool                // CPUs were released since the last call of Own.
	findings map[string]*Finding // By the key of the owner.
	reports  uint64
	last     string // the last error of Own
}

// New returns an Audit that is off. exists reports whether a cgroup exists. The Audit calls wake
// from another goroutine when a finding is new or over, and when the program is refused or loaded.
func New(log *slog.Logger, exists func(cgroup string) bool, now func() time.Time, wake func()) *Audit {
	held := make(map[int]*holder)
	return &Audit{
		log: log, exists: exists, now: now, wake: wake, changed: make(chan struct{}, 1), held: held,
		history: history{former: make(map[string]former), now: newInterval(held)}, findings: make(map[string]*Finding),
	}
}

// Open loads the program for the CPUs of this machine.
func Open(possible cpuset.Set) (Program, error) {
	return schedwatch.Open(kernelfs.CgroupRoot, possible.Last()+1)
}

// Exists reports whether a cgroup of this machine exists.
func Exists(cgroup string) bool {
	_, err := os.Stat(filepath.Join(kernelfs.CgroupRoot, cgroup))
	return !errors.Is(err, fs.ErrNotExist)
}

// Switch switches the audit on or off. The event loop calls it with each configuration.
func (a *Audit) Switch(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.on == on {
		return
	}
	a.on = on
	if !on {
		a.drop(func(int, *holder) bool { return true })
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// IsOn reports whether the audit is switched on.
func (a *Audit) IsOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on
}

// Begin ends the watch of the CPUs that have another owner in o. Call it before the first write of a
// pass with this plan.
func (a *Audit) Begin(o audit.Ownership) {
	next := holders(o)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropFormer(next)
}

// dropFormer ends the watch of the CPUs that have another owner in next. a.mu is held.
func (a *Audit) dropFormer(next map[int]*holder) {
	a.drop(func(cpu int, h *holder) bool { return next[cpu] == nil || next[cpu].key != h.key })
}

// End sets the owners of o. Call it after the last write of a pass with this plan. The watch of a CPU
// begins when a place of its owner runs there: effective returns the CPUs on which a cgroup runs, and
// false if it does not exist.
func (a *Audit) End(o audit.Ownership, effective func(cgroup string) (cpuset.Set, bool)) {
	next := holders(o)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.on {
		return
	}
	a.dropFormer(next) // an owner can have ended since Begin
	held := make(map[int]*holder, len(next))
	isNew := false
	for cpu, h := range next {
		kept := a.held[cpu] != nil
		if !kept && !h.runsOn(cpu, effective) {
			continue
		}
		held[cpu] = h
		isNew = isNew || !kept
		a.history.now.meet(cpu, h)
	}
	a.held = held // the names of places can differ
	if isNew || a.released {
		a.own()
	}
}

// Gone notes that a cgroup was removed. The watch of its CPUs ends: other tasks may run there now.
// It also ends if the cgroup exists again, because another cgroup has the same path then.
func (a *Audit) Gone(cgroup string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(func(_ int, h *holder) bool { return h.endsWith(cgroup, a.exists) })
}

// Admit ends the watch of CPUs on which a new cgroup runs from now on, unless it belongs to their
// owner. Call it before a reply to the runtime that precedes the pass with the new plan.
func (a *Audit) Admit(cgroup string, cpus cpuset.Set) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(func(cpu int, h *holder) bool { return cpus.Contains(cpu) && !h.owns(cgroup) })
}

// drop ends the watch of the CPUs for which is returns true. a.mu is held.
func (a *Audit) drop(is func(cpu int, h *holder) bool) {
	var cpus []int
	for cpu, h := range a.held {
		if is(cpu, h) {
			cpus = append(cpus, cpu)
			a.history.end(h, a.now())
		}
	}
	if len(cpus) == 0 {
		return
	}
	released := cpuset.Of(cpus...)
	if a.program != nil {
		a.program.Release(released)
		a.released = true
	}
	for _, cpu := range cpus {
		delete(a.held, cpu)
	}
	a.watched = a.watched.Difference(released)
}

// own passes the owners in force to the program. A CPU without a watch loses its owner, so that the
// next End tries again. a.mu is held.
func (a *Audit) own() {
	if a.program == nil {
		return
	}
	watched, err := a.program.Own(owners(a.held))
	a.watched, a.released = watched, false
	maps.DeleteFunc(a.held, func(cpu int, _ *holder) bool { return !watched.Contains(cpu) })
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != a.last && text != "" {
		a.log.Warn("live audit: CPUs without a watch", "error", err)
	}
	a.last = text
}
