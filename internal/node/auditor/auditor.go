// Package auditor scans the tasks and interrupts of the machine at intervals, and compares each
// scan with the previous one. The event loop passes it only the owners of CPUs after a pass. No
// decision depends on the result.
package auditor

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Auditor scans the machine at intervals.
type Auditor struct {
	scene   atomic.Pointer[Scene]
	result  atomic.Pointer[telemetry.Audit] // nil before the second scan, and while the audit is off
	changed chan struct{}                   // the interval has changed
}

// Scene holds the owners of CPUs, and the interval of the scans.
type Scene struct {
	Ownership audit.Ownership
	Interval  time.Duration // 0: the audit is off
}

// New returns an Auditor without scans.
func New() *Auditor { return &Auditor{changed: make(chan struct{}, 1)} }

// Show passes the owners of CPUs after a pass.
func (a *Auditor) Show(s Scene) {
	was := a.scene.Swap(&s)
	if was == nil || was.Interval != s.Interval {
		select {
		case a.changed <- struct{}{}:
		default:
		}
	}
}

// Result returns the scores since the start; nil before the first scan and while off.
func (a *Auditor) Result() *telemetry.Audit { return a.result.Load() }

// Watcher is the part of [audit.Watcher] that an Auditor uses.
type Watcher interface {
	Scan(o audit.Ownership, at uint64) error
	Evidence() (audit.Evidence, []string)
}

// Run scans until ctx ends, in a goroutine of its own. It calls open at each switch on.
func (a *Auditor) Run(ctx context.Context, log *slog.Logger, open func() (Watcher, error)) {
	runtime.LockOSThread() // so that threadTime measures this goroutine
	defer runtime.UnlockOSThread()
	var (
		w     Watcher
		scans = round{started: time.Now()}
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
		scene := a.scene.Load()
		if scene.Interval == 0 {
			w, scans.before = nil, nil
			a.result.Store(nil)
			due.Stop()
			continue
		}
		due.Reset(scene.Interval)
		var err error
		if w == nil {
			w, err = open()
		}
		if w != nil {
			err = scans.scan(w, scene.Ownership)
			a.result.Store(scans.shown)
		}
		if err != nil && err.Error() != last {
			log.Warn("audit", "error", err)
		}
		if last = ""; err != nil {
			last = err.Error()
		}
	}
}

type round struct {
	started time.Time
	before  *audit.Ownership // at the last scan; nil before the first
	total   telemetry.Audit
	shown   *telemetry.Audit
}

func (r *round) scan(w Watcher, now audit.Ownership) error {
	began := threadTime()
	defer func() {
		r.total.Seconds += (threadTime() - began).Seconds()
		shown := r.total
		r.shown = &shown
	}()
	if err := w.Scan(now, uint64(time.Since(r.started))); err != nil {
		r.total.Failed++
		return err
	}
	r.total.Scans++
	if r.before != nil {
		e, _ := w.Evidence() // only `cpupoold audit` reports unreadable files
		settled, _ := audit.Settled(*r.before, now)
		r.add(audit.Evaluate(settled, e))
	}
	r.before = &now
	return nil
}

func (r *round) add(report audit.Report) {
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

func threadTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Open returns a watcher of the tasks of this machine.
func Open() (Watcher, error) {
	cgroups, err := cgroup.Open(kernelfs.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", kernelfs.CgroupRoot, err)
	}
	usage := func(path string) (uint64, error) {
		used, err := cgroups.Usage(cgroup.Path(path))
		return uint64(max(used, 0)), err
	}
	// Only the kernel makes links in /proc, so the paths need no os.Root.
	return audit.NewWatcher(kernelfs.Dir(kernelfs.ProcRoot), audit.Affinity, usage), nil
}
