package daemon

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// takeUnits makes the units of the configuration those that are followed.
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

// codeUnitMissing is the code of units that systemd cannot start, or is not asked
// about.
const codeUnitMissing pools.Code = "UnitMissing"

// unitProblems are the units of the configuration that have no cgroup to be placed.
func (l *Loop) unitProblems() []pools.Problem {
	var all []pools.Problem
	hosts := l.settings.HostUnits()
	for _, name := range l.settings.PlacedNames() {
		if inside := l.inventory.Encloses(name, hosts); inside != "" {
			text := "its cgroup contains " + inside + ", which would be limited to its CPUs; it is left alone"
			all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: desired.CodeUnitEncloses, Text: text}})
			continue
		}
		text := "there is no systemd here"
		if e := l.inventory.Unit(name); e != nil {
			switch {
			case e.Err != nil:
				text = e.Err.Error()
			case !e.Unit.Loaded():
				text = "systemd cannot start it: " + e.Unit.Load + "; its CPUs are kept for it"
			default:
				continue
			}
		} else if l.Units != nil {
			continue // asked a moment ago
		}
		all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: codeUnitMissing, Text: text}})
	}
	return all
}

// unitRetry is when a question that was not answered is asked again.
const unitRetry = 5 * time.Second

// unitPause is how long after a question about a unit the next one is asked. A
// start or stop makes several signals; and whatever systemd may make of a question,
// it must not have to answer the next one at once.
const unitPause = 250 * time.Millisecond

// unitAsk is what systemd is asked about a unit: one question at a time.
type unitAsk struct {
	asking bool      // a question is under way
	wanted bool      // something has happened since it was asked
	due    time.Time // when the next may be asked
}

// fetchUnit asks systemd for a unit, soon. It may be called at any time and as often
// as anybody likes.
func (l *Loop) fetchUnit(name string) {
	l.fetchUnitAt(name, time.Time{})
	l.askDue(l.now())
}

// fetchUnitAt asks systemd for a unit, but not before a time.
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

// askDue asks the questions about units that are due, among the seals, so that no
// answer is older than the last of them.
func (l *Loop) askDue(now time.Time) {
	for name, a := range l.status.asks {
		if !a.wanted || a.asking || now.Before(a.due) {
			continue
		}
		a.wanted, a.asking, a.due = false, true, now.Add(unitPause)
		l.workers.Updates.Submit(l.unitQueue(name), func(ctx context.Context) event {
			return unitAnswered{inventory.FetchUnit(ctx, &l.Host, name)}
		})
	}
}

// nextAsk tells when questions about units are due.
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

// unitQueue is the queue in which what concerns a unit keeps its order.
func (l *Loop) unitQueue(name string) string {
	if e := l.inventory.Unit(name); e != nil && e.Unit.Path != "" {
		return string(e.Unit.Path)
	}
	return name
}

// onUnit takes over what systemd says of a unit.
func (l *Loop) onUnit(e inventory.UnitStatus) {
	if !l.follows(e.Name) {
		return // not any more
	}
	if e.Err != nil {
		if old := l.inventory.Unit(e.Name); old == nil || old.Err == nil {
			l.log.Warn("read unit", "unit", e.Name, "error", e.Err)
		}
		l.fetchUnitAt(e.Name, l.now().Add(unitRetry))
		// What it has been told it has on record: a systemd that is too busy to say so
		// must not be told again at every resync.
		l.inventory.PutUnit(e)
		return
	}
	l.inventory.PutUnit(e)
	u := l.inventory.Unit(e.Name)
	l.cache.SetRecord(u.Unit.Path, u.Record())
}

// watchedUnits are the units of the configuration, for the goroutine that watches.
type watchedUnits struct {
	mu      sync.Mutex // guards what follows
	names   []string
	changed func() // ends the watch of other names
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

// begin returns the names to watch, and a context that ends when there are others.
func (w *watchedUnits) begin(ctx context.Context) ([]string, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	w.changed = cancel
	return w.names, ctx, cancel
}

// unitWoken says that something has happened to a unit; to any, if it is empty.
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
	keepTrying(ctx, watch, func(err error) { l.box.Post(unitsLost{err}) })
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

// reloadsLost says that systemd does not tell when it has reloaded. What it puts back
// is found by what is written to the files.
type reloadsLost struct{ err error }

func (reloadsLost) scope(*Loop) scope { return scopeAll }

func (e reloadsLost) apply(l *Loop) {
	l.status.reloadsLost = true
	l.log.Warn("watch systemd", "error", e.err)
}

// unitsLost says that systemd does not tell what happens to units.
type unitsLost struct{ err error }

func (unitsLost) scope(*Loop) scope { return scopeAll }

func (e unitsLost) apply(l *Loop) {
	l.status.unitsLost = true
	l.log.Warn("watch units", "error", e.err)
}
