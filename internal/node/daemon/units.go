package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// takeUnits follows the units of the configuration.
func (l *Loop) takeUnits() {
	names := l.settings.UnitNames()
	for _, name := range names {
		if l.inventory.Unit(name) == nil && l.status.listed {
			l.fetchUnit(name)
		}
	}
	l.forgetUnits()
	l.watched.set(names)
}

// unitRetryInterval is the interval between questions about a unit without an answer.
const unitRetryInterval = 5 * time.Second

// unitQueryInterval is the minimum interval between questions about a unit. A start or stop
// causes several signals, and a question may cause more.
const unitQueryInterval = 250 * time.Millisecond

// unitAsk is the state of the questions to systemd about a unit: one at a time.
type unitAsk struct {
	asking bool      // systemd has not answered the last question yet
	wanted bool      // the next question is needed
	due    time.Time // earliest time of the next question
}

// fetchUnit asks systemd for a unit soon. Repeated calls cause one question.
func (l *Loop) fetchUnit(name string) {
	l.fetchUnitAt(name, time.Time{})
	l.askDue(l.now())
}

// fetchUnitAt asks systemd for a unit at the time due or later.
func (l *Loop) fetchUnitAt(name string, due time.Time) {
	if l.Units == nil {
		return
	}
	a := l.status.asks[name]
	if a == nil {
		a = &unitAsk{}
		l.status.asks[name] = a
	}
	a.wanted = true
	if due.After(a.due) {
		a.due = due
	}
}

// askDue asks the questions about units that are due. They go through the queue of the
// updates, so that no answer is older than the last update.
func (l *Loop) askDue(now time.Time) {
	for name, a := range l.status.asks {
		if !a.wanted || a.asking || now.Before(a.due) {
			continue
		}
		a.wanted, a.asking, a.due = false, true, now.Add(unitQueryInterval)
		l.workers.Updates.Submit(l.unitQueue(name), func(ctx context.Context) event {
			return unitAnswered{inventory.FetchUnit(ctx, &l.Host, name)}
		})
	}
}

// nextAsk calls earlier with the times of the next questions.
func (l *Loop) nextAsk(earlier func(time.Time)) {
	for _, a := range l.status.asks {
		if a.wanted && !a.asking {
			earlier(a.due)
		}
	}
}

// unitAnswered is the answer to fetchUnit.
type unitAnswered struct{ inventory.UnitStatus }

func (unitAnswered) scope(*Loop) scope { return scopeAll }

func (e unitAnswered) apply(l *Loop) {
	if a := l.status.asks[e.Name]; a != nil {
		a.asking = false
	}
	l.onUnit(e.UnitStatus)
	l.askDue(l.now())
}

// unitQueue returns the key of the queue in which the jobs of a unit keep their order.
func (l *Loop) unitQueue(name string) string {
	if e := l.inventory.Unit(name); e != nil && e.Unit.Path != "" {
		return string(e.Unit.Path)
	}
	return name
}

// onUnit applies an answer of systemd about a unit.
func (l *Loop) onUnit(e inventory.UnitStatus) {
	if !l.follows(e.Name) {
		return // the configuration no longer contains it
	}
	if e.Err != nil {
		if old := l.inventory.Unit(e.Name); old == nil || old.Err == nil {
			l.log.Warn("read unit", "unit", e.Name, "error", e.Err)
		}
		l.fetchUnitAt(e.Name, l.now().Add(unitRetryInterval))
		// The cache keeps the record of the daemon's last update: a systemd that is too busy
		// to answer does not get the update again at each resync.
		l.inventory.PutUnit(e)
		return
	}
	l.inventory.PutUnit(e)
	u := l.inventory.Unit(e.Name)
	l.cache.SetRecord(u.Unit.Path, u.Record())
}

// watchedUnits holds the units of the configuration for the goroutine that watches them.
type watchedUnits struct {
	mu      sync.Mutex // guards the fields below
	names   []string
	changed func() // ends the watch of the earlier names
}

func (w *watchedUnits) set(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(w.names, names) {
		return
	}
	w.names = names
	if w.changed != nil {
		w.changed()
	}
}

// begin returns the names to watch, and a context that ends when the names change.
func (w *watchedUnits) begin(ctx context.Context) ([]string, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	w.changed = cancel
	return w.names, ctx, cancel
}

// unitWoken reports a change of a unit, or of any unit if the name is empty.
type unitWoken struct{ name string }

// followUnits wakes the loop when units of the configuration start and stop.
func (l *Loop) followUnits(ctx context.Context) {
	if l.Units == nil {
		return
	}
	watch := func() error {
		for ctx.Err() == nil {
			names, current, cancel := l.watched.begin(ctx)
			var err error
			if len(names) == 0 {
				<-current.Done()
			} else {
				err = l.Units.WatchUnits(current, names, func(name string) { l.box.Post(unitWoken{name}) })
			}
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	}
	actor.KeepTrying(ctx, watch, func(err error) { l.box.Post(unitsLost{err}) })
}

func (unitWoken) scope(*Loop) scope { return scopeAll }

func (e unitWoken) apply(l *Loop) {
	l.status.unitsLost = false
	for _, name := range l.settings.UnitNames() {
		if e.name == "" || e.name == name {
			l.fetchUnit(name)
		}
	}
}

func (l *Loop) watchUnits(ctx context.Context) {
	if l.Units == nil {
		return
	}
	wake := func() { l.box.Post(systemdReloaded{}) }
	actor.KeepTrying(ctx, func() error { return l.Units.WatchReload(ctx, wake) }, func(err error) { l.box.Post(reloadsLost{err}) })
}

// systemdReloaded reports that systemd has reloaded its units, and may have reset values that
// it has not recorded.
type systemdReloaded struct{}

func (systemdReloaded) scope(*Loop) scope { return scopeAll }

func (systemdReloaded) apply(l *Loop) {
	l.drifts.reloaded = l.now()
	l.status.reloadsLost = false
	l.cache.InvalidateAll()
	for _, name := range l.settings.UnitNames() {
		l.fetchUnit(name) // the unit may have been installed or removed
	}
	for name := range l.status.away {
		delete(l.status.reverting, name) // the unit may exist again
	}
}

// reloadsLost reports that systemd no longer reports its reloads. The watcher of the cgroups
// still finds the values that a reload writes.
type reloadsLost struct{ err error }

func (reloadsLost) scope(*Loop) scope { return scopeAll }

func (e reloadsLost) apply(l *Loop) {
	l.status.reloadsLost = true
	l.log.Warn("watch systemd", "error", e.err)
}

// unitsLost reports that systemd no longer reports changes of units.
type unitsLost struct{ err error }

func (unitsLost) scope(*Loop) scope { return scopeAll }

func (e unitsLost) apply(l *Loop) {
	l.status.unitsLost = true
	l.log.Warn("watch units", "error", e.err)
}

// askUnits fetches the systemd properties of containers whose properties are unknown: their
// scopes have started since the runtime created them.
func (l *Loop) askUnits(want []cgroup.Target) {
	if l.Units == nil {
		return
	}
	for i := range want {
		t := &want[i]
		if t.Container == "" {
			continue
		}
		c := l.cache.Current(t.Path)
		if !c.Exists || c.Unit.Known || l.inventory.IsAwaited(*t) || l.cache.IsBusy(t.Path) || l.status.unitAsked[t.Path] {
			continue
		}
		l.askProperties(t.Path)
	}
}

func (l *Loop) askProperties(p cgroup.Path) {
	l.status.unitAsked[p], l.status.unitAwaited[p] = true, true
	// The queue of the cgroup's slow writes, so that no answer is older than the last write.
	l.workers.Updates.Submit(string(p), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
		defer cancel()
		return unitRead{path: p, unit: l.UnitState(ctx, p)}
	})
}

// unitRead holds the systemd properties of a cgroup.
type unitRead struct {
	path cgroup.Path
	unit cgroup.UnitState
}

func (unitRead) scope(*Loop) scope { return scopeOne }

func (e unitRead) apply(l *Loop) {
	l.cache.SetUnit(e.path, e.unit)
	delete(l.status.unitAwaited, e.path)
}

func (unitRead) ownResult() {}
