package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Audit
//
// Every audit.interval a goroutine of its own looks at the tasks and interrupts of the
// machine, and compares with what it saw the time before. The owner gives it nothing but
// the plan of its last pass, and gets nothing back: no decision depends on what is found.

// auditor looks at intervals.
type auditor struct {
	input   atomic.Pointer[auditInput]
	result  atomic.Pointer[telemetry.Audit] // nil before the second look, and while it is off
	changed chan struct{}                   // the interval is another one
}

// auditInput is what the owner gives to it.
type auditInput struct {
	ownership audit.Ownership
	interval  time.Duration // 0: it is off
}

func newAuditor() auditor { return auditor{changed: make(chan struct{}, 1)} }

// showAudit gives the auditor the plan of the last pass.
func (l *Loop) showAudit() {
	now := &auditInput{interval: l.settings.Config.AuditInterval}
	if now.interval > 0 {
		now.ownership = desired.Ownership(l.status.plan, l.inventory, l.status.hosts, &l.settings)
	}
	was := l.auditor.input.Swap(now)
	if was == nil || was.interval != now.interval {
		select {
		case l.auditor.changed <- struct{}{}:
		default:
		}
	}
}

// watcher is the part of audit.Watcher that is used here.
type watcher interface {
	Look(o audit.Ownership, at uint64) error
	Evidence() (audit.Evidence, []string)
}

// run looks until ctx ends. open is asked each time that the audit is switched on.
func (a *auditor) run(ctx context.Context, log *slog.Logger, open func() (watcher, error)) {
	runtime.LockOSThread() // so that its CPU time can be told
	defer runtime.UnlockOSThread()
	var (
		w     watcher
		round auditRound
		due   = time.NewTimer(time.Hour)
		said  string // the last error
	)
	due.Stop() // until the first scene says how often
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		case <-due.C:
		}
		scene := a.input.Load()
		if scene.interval == 0 {
			w, round.before = nil, nil
			a.result.Store(nil)
			due.Stop()
			continue
		}
		due.Reset(scene.interval)
		var err error
		if w == nil {
			w, err = open()
		}
		if w != nil {
			err = round.look(w, scene.ownership)
			a.result.Store(round.result())
		}
		if err != nil && err.Error() != said {
			log.Warn("audit", "error", err)
		}
		if said = ""; err != nil {
			said = err.Error()
		}
	}
}

// auditRound is what is known from one look to the next.
type auditRound struct {
	before *audit.Ownership // at the last look; nil if there was none
	total  telemetry.Audit
	shown  *telemetry.Audit
}

// look looks once, and judges what has been since the last time.
func (r *auditRound) look(w watcher, now audit.Ownership) error {
	began := threadTime()
	defer func() {
		r.total.Seconds += (threadTime() - began).Seconds()
		r.show()
	}()
	if err := w.Look(now, uint64(monotonic())); err != nil {
		r.total.Failed++
		return err
	}
	r.total.Looks++
	if r.before != nil {
		e, _ := w.Evidence() // what could not be read is told by `cpupoold audit`
		settled, _ := audit.Settled(*r.before, now)
		r.add(audit.Judge(settled, e))
	}
	r.before = &now
	return nil
}

// add takes over the scores of pools.
func (r *auditRound) add(report audit.Report) {
	was := make(map[telemetry.PoolName]telemetry.AuditPool)
	for _, p := range r.total.Pools {
		was[p.PoolName] = p
	}
	var all []telemetry.AuditPool
	for _, s := range report.Scores {
		if s.Name != "" {
			continue
		}
		name := telemetry.PoolName{Pool: s.Pool, Type: s.Type}
		p := was[name]
		delete(was, name)
		p.PoolName, p.Known, p.Score = name, true, s.Score/100
		p.ExposedTasks, p.ExposedInterrupts = s.ExposedTasks, s.ExposedInterrupts
		p.Others += s.Others
		p.Interrupts += s.DeviceInterrupts
		all = append(all, p)
	}
	for _, p := range was { // nobody has CPUs there any more; what has been counted stays
		all = append(all, telemetry.AuditPool{PoolName: p.PoolName, Others: p.Others, Interrupts: p.Interrupts})
	}
	r.total.Pools = all
}

func (r *auditRound) show() {
	shown := r.total
	r.shown = &shown
}

func (r *auditRound) result() *telemetry.Audit { return r.shown }

// threadTime is the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// monotonic is a clock that does not go back, in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// openWatcher is NewWatcher for run.
func openWatcher() (watcher, error) {
	w, err := NewWatcher()
	if err != nil {
		return nil, err // not a watcher that holds nil
	}
	return w, nil
}

// viewWithAudit adds to the published view what the audit has found.
func (l *Loop) viewWithAudit() *telemetry.View {
	v, found := l.viewWithCluster(), l.auditor.result.Load()
	if v == nil || found == nil {
		return v
	}
	all := *v
	all.Audit = found
	return &all
}

// NewWatcher returns who looks at the tasks of this machine.
func NewWatcher() (*audit.Watcher, error) {
	cgroups, err := cgroup.Open(hostenv.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", hostenv.CgroupRoot, err)
	}
	usage := func(path string) (uint64, error) {
		used, err := cgroups.Usage(cgroup.Path(path))
		return uint64(max(used, 0)), err
	}
	// Not os.Root, which opens each part of a path: nobody but the kernel makes links in /proc.
	return audit.NewWatcher(os.DirFS(hostenv.ProcRoot), audit.Affinity, usage), nil
}
