package daemon

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/usablecpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// publish replaces the state that other goroutines and the cluster see, and logs changes.
func (l *Loop) publish() {
	now := l.now()
	if l.status.planned {
		l.noteFaults(l.status.began)
		l.report()
		l.reportNoise()
		l.writeApplications(now)
		l.noteReady(now)
		l.showAudit()
		l.tuning.Set(&l.settings, l.status.plan, l.inventory, &l.others, l.Possible)
	}
	v := l.view()
	l.historyLog.NoteSources(v.Sources)
	l.snapshot.Store(v)
	l.publishSnapshot(v)
	l.showCluster()
}

// noteFaults finds the faults that the last pass has left. A write that became due after the
// begin of the pass is no fault: the next pass makes it.
func (l *Loop) noteFaults(began time.Time) {
	faults := l.faults(began)
	l.status.counts.AddPass(faults)
	for p, fault := range faults {
		if l.status.faults[p] == nil || l.status.faults[p].Error() != fault.Error() {
			l.log.Warn("not as planned", "cgroup", p, "error", fault)
			l.noteAt(p, history.Event{Kind: history.Fault, Error: fault.Error()})
		}
	}
	for p := range l.status.faults {
		if _, still := faults[p]; !still {
			l.log.Info("as planned again", "cgroup", p)
			l.noteAt(p, history.Event{Kind: history.Cleared})
		}
	}
	l.status.faults = faults
	working := l.working(began)
	if len(faults) == 0 && !working {
		l.status.lastSuccess = l.now()
	}
}

// noteReady reports once that the node has its desired state. It waits for the files for
// applications, at most appfiles.Timeout, and not after a failed write: a unit that waits for the
// daemon reads its CPUs when it starts.
func (l *Loop) noteReady(now time.Time) {
	if l.status.ready || l.working(l.status.began) || now.Before(l.files.Due()) {
		return
	}
	l.status.ready = true
	l.historyLog.Add(history.Event{Kind: history.Ready})
	pods, containers := l.inventory.Len()
	l.log.Info("ready", "pods", pods, "containers", containers)
	l.notify.Ready()
}

// working reports whether writes are in progress, wait for the journal, or will be repeated
// in a moment.
func (l *Loop) working(now time.Time) bool {
	return l.cache.HasBusy() || l.journal.Blocks() || l.backoffs.AnyWaiting(now)
}

// faults returns the cgroups that do not have their desired state, and that no write in
// progress repairs.
func (l *Loop) faults(now time.Time) map[cgroup.Path]error {
	faults := make(map[cgroup.Path]error)
	if l.journal.Blocks() {
		return faults // nothing has been written yet
	}
	unconfirmed := make(map[cgroup.Path]bool)
	for e := range l.inventory.Containers() {
		if e.IsUnconfirmed() {
			unconfirmed[e.Path] = true
		}
	}
	unheard := l.drifts.Unconfirmed()
	busy := func(p cgroup.Path) bool {
		return l.cache.IsBusy(p) || l.backoffs.Waiting(p, now) || unconfirmed[p] || unheard[p] || l.units.Scopes().IsAwaited(p)
	}
	waits := make(map[cgroup.Path]bool)
	for _, d := range l.status.deferred {
		if l.quiet.Defers(d.Path, d.Property) {
			continue
		}
		contested := d.Property == cgroup.FileCPUs && l.backoffs.Confines(d.Path, l.status.runsOutside(l.cache), now) // a problem, and not a fault
		if waits[d.Path] = contested || busy(d.Path) || slices.ContainsFunc(d.WaitsFor, busy); !waits[d.Path] {
			faults[d.Path] = l.backoffs.WaitErr(d)
		}
	}
	for i := range l.status.targets {
		t := &l.status.targets[i]
		c := l.cache.Current(t.Path)
		if !c.Exists || busy(t.Path) || waits[t.Path] || faults[t.Path] != nil {
			continue
		}
		if l.quiet.Defers(t.Path, cgroup.FileWeight) {
			later := *t
			later.Weight, t = 0, &later
		}
		if err := errors.Join(cgroup.Verify(*t, c.State), l.backoffs.Err(t.Path)); err != nil {
			faults[t.Path] = err
		}
	}
	maps.Insert(faults, l.cache.Stranded())
	maps.Copy(faults, l.status.unreadable)
	return faults
}

// report logs the begin and the end of each problem.
func (l *Loop) report() {
	now := make(map[problemKey]bool, len(l.status.plan.Problems))
	l.status.problems = l.problems()
	for _, p := range l.status.problems {
		key := problemKey{p.Pod, p.PodUID, p.Container, p.Unit, p.Code}
		if !now[key] && !l.status.reported[key] {
			l.log.Warn("not honoured", "pod", p.Pod, "container", p.Container, "unit", p.Unit, "code", p.Code, "problem", p.Text)
			l.noteProblem(history.Problem, key, p.Text)
		}
		now[key] = true
	}
	for key := range l.status.reported {
		if !now[key] {
			l.log.Info("problem is over", "pod", key.pod, "container", key.container, "unit", key.unit, "code", key.code)
			l.noteProblem(history.Over, key, "")
		}
	}
	l.status.reported = now
}

// problemKey identifies a problem without the numbers in its text: a refusal stays the same
// problem while the number of free CPUs changes.
type problemKey struct {
	pod, uid, container, unit string

	code pools.Code
}

// problems returns the problems of the plan, and of everything that could not be planned.
func (l *Loop) problems() []pools.Problem {
	all := slices.Clip(l.status.plan.Problems)
	all = append(all, l.inventory.Problems()...)
	if d := l.node().Depleted(); d != nil {
		all = append(all, *d)
	}
	all = append(all, l.others.Problems(l.inventory, &l.settings)...)
	all = append(all, l.settings.UnitProblems(l.inventory, l.Units != nil)...)
	all = append(all, l.settings.HostProblems(l.inventory, l.units.Hosts(), l.Units != nil)...)
	all = append(all, usablecpus.Problems(l.status.withheld, l.settings.Offline())...)
	all = append(all, l.partitions.Problems(l.status.targets)...)
	all = append(all, l.settings.NRIProblems(l.status.nriErr)...)
	all = append(all, l.cgroupProblems(l.watch.Watcher().Flooding())...)
	all = append(all, l.inventory.RecordProblems(l.status.targets)...)
	all = append(all, l.auxiliary.Problems(l.inventory)...)
	all = append(all, l.tuning.Problems()...)
	all = append(all, l.journal.Problems(l.JournalFile)...)
	all = append(all, l.refusalLog.Problems()...)
	all = append(all, l.hints.Problems(l.inventory, l.now())...)
	all = append(all, l.kubeletProblems()...)
	all = append(all, l.files.Problems()...)
	return all
}

func (l *Loop) view() *telemetry.View {
	node := l.node()
	v := &telemetry.View{
		Problems:    make(map[string]int),
		Faulty:      len(l.status.faults),
		Pools:       node.PoolMetrics(l.kubelet.CPUs()),
		Room:        l.status.capacity.Room(node, func() []pools.Pod { return l.inventory.Input(l.now()) }),
		Ready:       l.status.ready,
		LastSuccess: l.status.lastSuccess,
		ConfigStale: l.status.configErr != nil,
		Adapted:     l.settings.Adapted,
		Offline:     l.settings.Offline(),
		Refusals:    l.refusalLog.List(),
		Gathered:    l.cache.MovedThreads(),
		Stuck:       l.cache.StrandedThreads(),
		Placements:  l.exposureMeter.Placements(),
		Refused:     l.refusalLog.Totals(),
		Shortened:   l.requests.ShortenedWaits(),
		Sources:     l.sources(),
		HostUnits:   l.units.HostView(),
		Partitions:  l.partitions.Counts(),
		Leaked:      l.partitions.Lost(),
		Parked:      l.partitions.Parked(),
		Quiet:       l.quiet.Counts(),
		Observed:    l.unwrittenCounts(),
		Settings:    l.tuning.View(),
	}
	l.driftView(v)
	l.status.counts.Report(v)
	problems := l.status.problems
	if !l.status.planned { // report has not run
		problems = l.problems()
	}
	for _, problem := range problems {
		v.Problems[string(problem.Code)]++
	}
	paths := make(map[string]cgroup.Path, len(l.status.targets))
	for i := range l.status.targets {
		t := &l.status.targets[i]
		if id := t.Container + t.Unit; id != "" && l.cache.Current(t.Path).Exists {
			paths[id] = t.Path
		}
	}
	v.Containers, v.Mixed = node.Containers(paths, func(cpus cpuset.Set, at cgroup.Path) (noise.Report, map[string]int) {
		r := l.machine().Of(cpus, l.partitions.Mode(at))
		return r, counts(l.Boot, r)
	})
	return v
}

// sources returns the states of the sources of events.
func (l *Loop) sources() map[telemetry.Source]telemetry.SourceState {
	all := make(map[telemetry.Source]telemetry.SourceState)
	if l.Runtime != nil {
		all[telemetry.CRIEvents] = sourceState(l.status.stream)
		if l.status.runtimeErr != nil {
			// A runtime that hangs does not end its stream, but sends no events.
			all[telemetry.CRIEvents] = telemetry.SourceLost
		}
	}
	if l.NRISocket != "" {
		all[telemetry.NRI] = cmp.Or(l.status.nri, telemetry.SourceAbsent)
	}
	all[telemetry.Inotify] = l.watch.State()
	if state, written := l.files.State(l.now()); written {
		all[telemetry.ApplicationFiles] = state
	}
	if l.CPUs != nil {
		all[telemetry.CPUs] = l.cpuState()
	}
	if state, asked := l.permission.State(); asked {
		all[telemetry.Namespaces] = state
	}
	if state := l.hints.State(); state != "" {
		all[telemetry.PodResources] = state
	}
	if l.Units != nil || len(l.settings.UnitNames()) > 0 {
		all[telemetry.Units] = telemetry.SourceOK
		if l.Units == nil || l.status.reloadsLost || l.status.unitsLost {
			all[telemetry.Units] = telemetry.SourceLost
		}
	}
	return all
}

func sourceState(s cri.StreamState) telemetry.SourceState {
	switch s {
	case cri.Connected:
		return telemetry.SourceOK
	case cri.Unsupported:
		return telemetry.SourcePolling
	default:
		return telemetry.SourceLost
	}
}

// count counts a write, and adds it to the log and to the history.
func (l *Loop) count(w cgroup.Write, err error) {
	l.status.counts.AddWrite(w, err)
	l.historyLog.AddWrite(l.inventory, w, err)
	switch {
	case err == nil:
		l.log.Info("wrote", "write", w)
	case hostenv.IsGone(err):
		l.log.Info("gone before the write", "write", w, "error", err)
	default:
		l.log.Error("write refused", "write", w, "error", err)
	}
}

// unwrittenCounts returns the number of omitted writes by way, or nil outside mode: observe.
func (l *Loop) unwrittenCounts() map[string]int {
	if !l.Observes {
		return nil
	}
	counts := map[string]int{string(cgroup.File): 0, string(cgroup.CRI): 0, string(cgroup.DBus): 0}
	for w := range l.status.unwritten {
		counts[string(w.Via)]++
	}
	return counts
}
