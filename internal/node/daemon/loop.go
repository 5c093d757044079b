package daemon

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	cluster "github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/numahints"
	quiets "github.com/cpupoold/cpupoold/internal/node/quiet"
	recoverys "github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// pollPeriod is how often the runtime is asked when it has no event stream.
const pollPeriod = time.Second

// relistPause is how soon a listing that failed is tried again.
const relistPause = 5 * time.Second

// patientListings is how often the first listing is asked for again when parts of
// it are missing. Then the daemon begins without them: one object that can never
// be read must not keep the node from its pools.
const patientListings = 6

// journalPatience is how long first writes wait for their originals to be on
// disk. A stuck disk must not keep containers on the wrong CPUs: after it
// the writes go ahead, and the state says that undo is at risk.
const journalPatience = 500 * time.Millisecond

// loop owns all state. Only run's goroutine touches it; everybody else posts
// events and reads snapshots.
type loop struct {
	hostenv.Host
	log *slog.Logger
	box *actor.Mailbox
	actor.Crew
	load     func() (*config.Config, error) // reads the configuration again
	loading  sync.Mutex                     // held while load runs and its result is posted
	counting sync.Mutex                     // guards counted, and is held while CPUs are read and posted
	counted  *topology.Topology             // the CPUs as they were last read
	snapshot *atomic.Pointer[telemetry.View]
	notify   hostenv.Notifier
	cluster  *cluster.Runner // nil where the node is in no cluster

	permission permission

	settings    desired.Settings
	model       *inventory.Model
	planner     pools.Planner
	tree        *kernelstate.Tree
	bench       *retry.Bench
	ledger      *undo.Ledger
	assignments []pools.Assignment
	formula     config.WeightFormula
	status      status
	timers      timers

	hints        *numahints.Hints
	refusals     *refusals
	kubelet      desired.KubeletCPUs
	applications applications
	watched      watchedUnits
	moving       []moveAsked // begun, and not answered
	waiting      []moveAsked // not begun

	creating    []*createAsked // not answered; one at a time, but for those that the runtime has given up
	starting    []*startAsked  // likewise
	promises    promises
	resizing    map[string]*resizing // by container
	plannedOnce chan struct{}        // closed after the first pass
	watch       treeWatch
	drifts      *drifts
	strangers   strangers
	departed    map[cgroup.Path]bool // cgroups that have been seen go
	others      desired.Others
	threads     threads
	exposures   exposures
	isolation   isolation
	agenda      agenda
	quiet       quiets.Quiet
	auditor     auditor
	tuner       *tune.Tuner // nil where the host's settings are left alone
	tuning      tuning
	chronicle   view.Chronicle
	thrift      thrift
	inside      atomic.Pointer[view.Inside]
}

// run handles events until ctx ends. It never waits for anything but events.
func (l *loop) run(ctx context.Context) {
	l.list()
	for {
		l.armPulse()
		select {
		case <-ctx.Done():
			return
		case <-l.timers.pulse.C:
			l.notify.Alive()
			continue
		case <-l.box.Wake:
		case <-l.watch.wake:
			if l.heard(); !l.agenda.asked() {
				continue
			}
		case now := <-l.timers.resync.C:
			l.resync(now)
		case <-l.timers.sweep.C:
			l.agenda.whole = true
		case <-l.timers.retry.C:
			l.agenda.whole = true
		case <-l.timers.rest.C:
		case <-l.timers.journal.C:
			l.agenda.whole = true
			l.status.journalLate, l.status.journalErr = true, undo.ErrSlowDisk
			l.log.Error("journal is late; writes go ahead, and what they replace may not be known to restore", "journal", l.Journal)
		}
		for _, e := range l.box.Take() {
			l.handle(e)
		}
		l.askKubelet(time.Now())
		l.sweepDue()
		l.work()
		l.notify.Alive()
	}
}

// resync has everything listed, and all cgroups looked at. The pass that the list brings looks
// at them; a runtime that takes its time does not keep it waiting.
func (l *loop) resync(now time.Time) {
	// A runtime without events is listed much more often than that.
	if now.Sub(l.status.distrusted) >= l.settings.Config.ResyncPeriod {
		l.status.distrusted = now
		l.status.toSweep = true
		l.timers.sweep.Reset(restPatience)
		l.recountCPUs()
	}
	l.timers.resync.Reset(l.resyncPeriod()) // a list that never comes must not be the last
	l.list()
}

// sweepDue has all cgroups looked at in the whole pass that is made now, if the resync asks for
// it. Not before: what others write meanwhile would not be looked at at once.
func (l *loop) sweepDue() {
	if l.status.toSweep && l.agenda.whole {
		l.status.toSweep = false
		l.thrift.looked = true
		l.timers.sweep.Stop()
		l.tree.Sweep(l.watch.told, l.settings.Config.ResyncPeriod)
	}
}

func (l *loop) handle(e actor.Event) {
	l.agenda.add(l.concern(e))
	switch e.(type) {
	case kubeletArrived, written, unitRead, saved, tuned: // follow from what is known already
	default:
		l.kubelet.Due = true
	}
	switch e := e.(type) {
	case runtimeEvent:
		l.onRuntimeEvent(e)
	case streamChanged:
		l.onStream(e)
	case inventory.Listed:
		l.onListed(e)
	case podFetched:
		l.onPod(e)
	case containerFetched:
		l.onContainer(e)
	case written:
		l.onWritten(e)
	case unitRead:
		l.tree.LearnUnit(e.path, e.unit)
		delete(l.status.unitAwaited, e.path)
	case saved:
		l.onSaved(e)
	case configLoaded:
		l.onConfig(e)
	case desired.FormulaFound:
		l.status.formulaAsked = true
		if l.settings.Config.WeightFormula == config.WeightAuto && !l.status.formulaSeen {
			l.formula = e.Formula // until a container shows that it is another
			l.log.Info("weight formula", "formula", e.Formula, "oci_runtime", e.Version)
		}
	case reexecuted:
		l.drifts.reloaded = time.Now()
		l.status.reloadsLost = false
		l.tree.DistrustAll()
		for _, name := range l.settings.UnitNames() {
			l.fetchUnit(name) // it may have been installed or removed
		}
		for name := range l.status.away {
			delete(l.status.reverting, name) // likewise
		}
	case applied:
		e.apply(l)
	}
}

// list asks the runtime for everything, and systemd for the configured units.
func (l *loop) list() {
	if l.status.listing {
		return // the answer that is under way starts the next period
	}
	l.status.listing = true
	asOf := l.model.Clock
	known := l.model.KnownIDs()
	names, within := l.settings.UnitNames(), inventory.Limits{Unit: inventory.UnitPatience, Listing: hostenv.CallTimeout}
	if !l.status.listed {
		within = inventory.Limits{Unit: inventory.StartPatience, Listing: hostenv.UpdateTimeout}
	}
	l.Asks.Submit("list", func(ctx context.Context) actor.Event {
		found := inventory.Census(ctx, &l.Host, names, within, func(id string) bool { return known[id] })
		found.AsOf = asOf
		return found
	})
}

func (l *loop) onListed(e inventory.Listed) {
	l.status.listing, l.hints.Off = false, false
	l.timers.resync.Reset(l.resyncPeriod())
	if e.Err != nil {
		if old := l.status.runtimeErr; old == nil || old.Error() != e.Err.Error() {
			l.log.Warn("list pods and containers", "error", e.Err)
		}
		l.status.runtimeErr = e.Err
		l.timers.resync.Reset(min(relistPause, l.resyncPeriod()))
		return
	}
	if l.status.runtimeErr != nil {
		l.log.Info("the container runtime lists pods and containers again")
	}
	l.status.runtimeErr = nil
	clear(l.status.vanished)
	clear(l.status.unitAsked)
	clear(l.status.reverting)
	l.others.Learn(e.Crio, l.model)
	l.model.Merge(e)
	for _, u := range e.Units {
		l.onUnit(u)
	}
	patience := l.relistSoon(len(e.Failed) > 0)
	if !l.status.listed {
		if patience {
			// What could not be read keeps what it has. But what is free, and where
			// others belong, is better decided when all is known.
			l.log.Warn("first listing is incomplete; asking again before anything is written", "error", errors.Join(e.Failed...))
			return
		}
		l.status.listed = true
		if !l.settings.Pools.Kubelet { // then who came with CPUs had them from the kubelet
			l.model.Recall(l.ledger.Others)
		}
		l.model.Unconsidered() // all that is there is considered now
		l.assignments = recoverys.RecoverAssignments(l.model, l.Cgroups.Read, l.ledger.Assignments, &l.settings)
		l.model.Started = time.Now()
		l.thrift.start(l.model.Started)
	}
	l.prune()
}

// relistSoon brings the next listing forward while some objects cannot be read, less
// and less often: they keep what they have, and get nothing new. It says whether it
// is early enough to wait for them.
func (l *loop) relistSoon(incomplete bool) (early bool) {
	if !incomplete {
		l.status.incomplete = 0
		return false
	}
	pause := relistPause
	for range l.status.incomplete - patientListings {
		pause = min(2*pause, l.resyncPeriod())
	}
	l.timers.resync.Reset(min(pause, l.resyncPeriod()))
	l.status.incomplete++
	return l.status.incomplete <= patientListings
}

func (l *loop) resyncPeriod() time.Duration {
	if l.status.stream == cri.Unsupported {
		return min(pollPeriod, l.settings.Config.ResyncPeriod)
	}
	return l.settings.Config.ResyncPeriod
}

// inForce follows a change of the settings, and tells what of them is not as it was
// told before.
func (l *loop) inForce(told desired.Settings) {
	if !reflect.DeepEqual(l.settings.Pools, told.Pools) {
		l.log.Info("configuration in force", "pools", l.settings.Pools)
	}
	for _, what := range l.settings.Adapted {
		if !slices.Contains(told.Adapted, what) {
			l.log.Warn("configuration adapted to this machine", "adaption", what)
		}
	}
	l.ledger.Accept(l.settings.Fits)
	l.takeUnits()
}

func (l *loop) onConfig(e configLoaded) {
	before := l.settings.Config
	formula := before.WeightFormula
	if e.err == nil {
		e.err = l.settings.Change(e.config, l.settings.Topology, l.ledger.Accepted)
	}
	l.status.configErr = e.err
	if e.err != nil {
		l.log.Error("configuration refused; the one in force stays", "error", e.err)
		l.chronicle.Add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.inForce(desired.Settings{}) // somebody waits for an answer to his change
	l.chronicle.Add(history.Event{Kind: history.Config, Cause: "read again"})
	if keys := desired.Fixed(before, e.config); len(keys) > 0 {
		l.log.Warn("restart the daemon for these keys to take effect", "keys", keys)
	}
	switch f := e.config.WeightFormula; f {
	case formula:
	case config.WeightAuto:
		l.status.formulaSeen = false
		l.askFormula()
	default:
		l.formula = f
	}
	l.timers.resync.Reset(l.resyncPeriod())
}
