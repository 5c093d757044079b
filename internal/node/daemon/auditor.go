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
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// # Audit
//
// Every audit.interval a separate goroutine scans the tasks and interrupts of the machine, and
// compares them with the previous scan. The event loop passes it only the plan of the last
// pass. No decision depends on the result.

// auditor scans the machine at intervals.
type auditor struct {
	input   atomic.Pointer[auditInput]
	result  atomic.Pointer[telemetry.Audit] // nil before the second scan, and while the audit is off
	changed chan struct{}                   // the interval has changed
}

// auditInput holds the values that the event loop passes to the auditor.
type auditInput struct {
	ownership audit.Ownership
	interval  time.Duration // 0: the audit is off
}

func newAuditor() auditor { return auditor{changed: make(chan struct{}, 1)} }

// showAudit passes the plan of the last pass to the auditor.
func (l *Loop) showAudit() {
	now := &auditInput{interval: l.settings.Config.AuditInterval}
	if now.interval > 0 {
		now.ownership = l.settings.Ownership(l.status.plan, l.inventory, l.units.Hosts(), l.status.auxiliary)
	}
	was := l.auditor.input.Swap(now)
	if was == nil || was.interval != now.interval {
		select {
		case l.auditor.changed <- struct{}{}:
		default:
		}
	}
}

// watcher is the part of audit.Watcher that the auditor uses.
type watcher interface {
	Scan(o audit.Ownership, at uint64) error
	Evidence() (audit.Evidence, []string)
}

// run scans until ctx ends. It calls open whenever the audit is switched on.
func (a *auditor) run(ctx context.Context, log *slog.Logger, open func() (watcher, error)) {
	runtime.LockOSThread() // so that threadTime measures this goroutine
	defer runtime.UnlockOSThread()
	var (
		w     watcher
		round auditRound
		due   = time.NewTimer(time.Hour)
		last  string // the last error
	)
	due.Stop() // until the first input contains an interval
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
			err = round.scan(w, scene.ownership)
			a.result.Store(round.result())
		}
		if err != nil && err.Error() != last {
			log.Warn("audit", "error", err)
		}
		if last = ""; err != nil {
			last = err.Error()
		}
	}
}

// auditRound holds the results of the scans so far.
type auditRound struct {
	before *audit.Ownership // at the last scan; nil before the first
	total  telemetry.Audit
	shown  *telemetry.Audit
}

// scan scans once and adds the scores since the last scan.
func (r *auditRound) scan(w watcher, now audit.Ownership) error {
	began := threadTime()
	defer func() {
		r.total.Seconds += (threadTime() - began).Seconds()
		r.publish()
	}()
	if err := w.Scan(now, uint64(monotonic())); err != nil {
		r.total.Failed++
		return err
	}
	r.total.Scans++
	if r.before != nil {
		e, _ := w.Evidence() // only `cpupoold audit` reports unreadable files
		settled, _ := audit.Settled(*r.before, now)
		r.add(audit.Judge(settled, e))
	}
	r.before = &now
	return nil
}

// add adds the scores of the pools in report.
func (r *auditRound) add(report audit.Report) {
	was := make(map[telemetry.PoolName]telemetry.AuditPool)
	for _, p := range r.total.Pools {
		was[p.PoolName] = p
	}
	var all []telemetry.AuditPool
	for _, s := range report.Scores {
		if s.Name != "" || s.Score == nil {
			continue
		}
		name := telemetry.PoolName{Pool: s.Pool, Type: s.Type}
		p := was[name]
		delete(was, name)
		p.PoolName, p.Known, p.Score = name, true, *s.Score/100
		p.ExposedTasks, p.ExposedInterrupts = s.ExposedTasks, s.ExposedInterrupts
		p.Others += s.Others
		p.Interrupts += s.DeviceInterrupts
		all = append(all, p)
	}
	for _, p := range was { // pools without CPUs keep their counters
		all = append(all, telemetry.AuditPool{PoolName: p.PoolName, Others: p.Others, Interrupts: p.Interrupts})
	}
	r.total.Pools = all
}

func (r *auditRound) publish() {
	shown := r.total
	r.shown = &shown
}

func (r *auditRound) result() *telemetry.Audit { return r.shown }

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// monotonic returns the time of CLOCK_MONOTONIC in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// openWatcher returns the result of NewWatcher as an interface.
func openWatcher() (watcher, error) {
	w, err := NewWatcher()
	if err != nil {
		return nil, err // not an interface with a nil pointer
	}
	return w, nil
}

// viewWithAudit returns the published view with the results of the audit.
func (l *Loop) viewWithAudit() *telemetry.View {
	v, found := l.viewWithCluster(), l.auditor.result.Load()
	if v == nil || found == nil {
		return v
	}
	all := *v
	all.Audit = found
	return &all
}

// NewWatcher returns a watcher of the tasks of this machine.
func NewWatcher() (*audit.Watcher, error) {
	cgroups, err := cgroup.Open(hostenv.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", hostenv.CgroupRoot, err)
	}
	usage := func(path string) (uint64, error) {
		used, err := cgroups.Usage(cgroup.Path(path))
		return uint64(max(used, 0)), err
	}
	// Not os.Root, which opens each part of a path: only the kernel makes links in /proc.
	return audit.NewWatcher(os.DirFS(hostenv.ProcRoot), audit.Affinity, usage), nil
}
