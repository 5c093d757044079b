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
	"github.com/cpupoold/cpupoold/internal/managers"
	cluster "github.com/cpupoold/cpupoold/internal/node"
	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/internal/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
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

// host is the outside world as the owner uses it: files of cgroups directly,
// everything else through workers.
type host struct {
	cgroups  *cgroup.FS
	driver   cgroup.Driver
	possible cpuset.Set
	nodes    cpuset.Set             // NUMA nodes with memory
	runtime  runtimeClient          // nil without a container runtime
	units    unitManager            // nil without systemd
	devices  hintSource             // nil when the kubelet is not asked
	manager  cpuManager             // nil when the kubelet gives no CPUs away
	cpus     cpuSource              // nil when CPUs are not watched
	journal  string                 // file name
	files    string                 // directory of the files for applications
	kernel   cgroup.PartitionKernel // what it can do with partitions
	online   func() cpuset.Set      // CPUs that are plugged in
	boot     bootFacts
	// observes says that nothing is to be written (observe.go).
	observes bool
	// nriSocket is the runtime's NRI; empty when it is not used.
	nriSocket string
	// managers reads what other managers of CPUs are told to do; nil where the runtime
	// is none.
	managers func() managers.CRIO
	// unitFile reads a file that systemd reads units from.
	unitFile func(name string) ([]byte, error)
}

// loop owns all state. Only run's goroutine touches it; everybody else posts
// events and reads snapshots.
type loop struct {
	host
	log *slog.Logger
	box *mailbox
	crew
	load     func() (*config.Config, error) // reads the configuration again
	loading  sync.Mutex                     // held while load runs and its result is posted
	counting sync.Mutex                     // guards counted, and is held while CPUs are read and posted
	counted  *topology.Topology             // the CPUs as they were last read
	snapshot *atomic.Pointer[telemetry.View]
	notify   notifier
	cluster  *cluster.Runner // nil where the node is in no cluster

	permission permission

	settings    settings
	model       *model
	planner     pools.Planner
	tree        *tree
	bench       *bench
	ledger      *ledger
	assignments []pools.Assignment
	formula     config.WeightFormula
	status      status
	timers      timers

	hints        *hints
	refusals     *refusals
	kubelet      kubeletCPUs
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
	others      others
	threads     threads
	exposures   exposures
	isolation   isolation
	agenda      agenda
	quiet       quiet
	auditor     auditor
	tuner       *tune.Tuner // nil where the host's settings are left alone
	tuning      tuning
	chronicle   chronicle
	thrift      thrift
	inside      atomic.Pointer[inside]
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
			l.notify.alive()
			continue
		case <-l.box.wake:
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
			l.status.journalLate, l.status.journalErr = true, errSlowDisk
			l.log.Error("journal is late; writes go ahead, and what they replace may not be known to restore", "journal", l.journal)
		}
		for _, e := range l.box.take() {
			l.handle(e)
		}
		l.askKubelet(time.Now())
		l.sweepDue()
		l.work()
		l.notify.alive()
	}
}

// resync has everything listed, and all cgroups looked at. The pass that the list brings looks
// at them; a runtime that takes its time does not keep it waiting.
func (l *loop) resync(now time.Time) {
	// A runtime without events is listed much more often than that.
	if now.Sub(l.status.distrusted) >= l.settings.config.ResyncPeriod {
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
		l.tree.sweep(l.watch.told, l.settings.config.ResyncPeriod)
	}
}

func (l *loop) handle(e event) {
	l.agenda.add(l.concern(e))
	switch e.(type) {
	case kubeletArrived, written, unitRead, saved, tuned: // follow from what is known already
	default:
		l.kubelet.due = true
	}
	switch e := e.(type) {
	case runtimeEvent:
		l.onRuntimeEvent(e)
	case streamChanged:
		l.onStream(e)
	case listed:
		l.onListed(e)
	case podFetched:
		l.onPod(e)
	case containerFetched:
		l.onContainer(e)
	case written:
		l.onWritten(e)
	case unitRead:
		l.tree.learnUnit(e.path, e.unit)
		delete(l.status.unitAwaited, e.path)
	case saved:
		l.onSaved(e)
	case configLoaded:
		l.onConfig(e)
	case formulaFound:
		l.status.formulaAsked = true
		if l.settings.config.WeightFormula == config.WeightAuto && !l.status.formulaSeen {
			l.formula = e.formula // until a container shows that it is another
			l.log.Info("weight formula", "formula", e.formula, "oci_runtime", e.version)
		}
	case reexecuted:
		l.drifts.reloaded = time.Now()
		l.status.reloadsLost = false
		l.tree.distrustAll()
		for _, name := range l.settings.unitNames() {
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
	asOf := l.model.clock
	known := l.model.knownIDs()
	names, within := l.settings.unitNames(), limits{unitPatience, callTimeout}
	if !l.status.listed {
		within = limits{startPatience, updateTimeout}
	}
	l.asks.submit("list", func(ctx context.Context) event {
		found := census(ctx, &l.host, names, within, func(id string) bool { return known[id] })
		found.asOf = asOf
		return found
	})
}

func (l *loop) onListed(e listed) {
	l.status.listing, l.hints.off = false, false
	l.timers.resync.Reset(l.resyncPeriod())
	if e.err != nil {
		if old := l.status.runtimeErr; old == nil || old.Error() != e.err.Error() {
			l.log.Warn("list pods and containers", "error", e.err)
		}
		l.status.runtimeErr = e.err
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
	l.others.learn(e.crio, l.model)
	l.model.merge(e)
	for _, u := range e.units {
		l.onUnit(u)
	}
	patience := l.relistSoon(len(e.failed) > 0)
	if !l.status.listed {
		if patience {
			// What could not be read keeps what it has. But what is free, and where
			// others belong, is better decided when all is known.
			l.log.Warn("first listing is incomplete; asking again before anything is written", "error", errors.Join(e.failed...))
			return
		}
		l.status.listed = true
		if !l.settings.pools.Kubelet { // then who came with CPUs had them from the kubelet
			l.model.recall(l.ledger.others)
		}
		l.model.unconsidered() // all that is there is considered now
		l.assignments = recoverAssignments(l.model, l.cgroups.Read, l.ledger.assignments, &l.settings)
		l.model.started = time.Now()
		l.thrift.start(l.model.started)
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
		return min(pollPeriod, l.settings.config.ResyncPeriod)
	}
	return l.settings.config.ResyncPeriod
}

// inForce follows a change of the settings, and tells what of them is not as it was
// told before.
func (l *loop) inForce(told settings) {
	if !reflect.DeepEqual(l.settings.pools, told.pools) {
		l.log.Info("configuration in force", "pools", l.settings.pools)
	}
	for _, what := range l.settings.adapted {
		if !slices.Contains(told.adapted, what) {
			l.log.Warn("configuration adapted to this machine", "adaption", what)
		}
	}
	l.ledger.accept(l.settings.fits)
	l.takeUnits()
}

func (l *loop) onConfig(e configLoaded) {
	before := l.settings.config
	formula := before.WeightFormula
	if e.err == nil {
		e.err = l.settings.change(e.config, l.settings.topology, l.ledger.accepted)
	}
	l.status.configErr = e.err
	if e.err != nil {
		l.log.Error("configuration refused; the one in force stays", "error", e.err)
		l.chronicle.add(history.Event{Kind: history.Config, Error: e.err.Error()})
		return
	}
	l.inForce(settings{}) // somebody waits for an answer to his change
	l.chronicle.add(history.Event{Kind: history.Config, Cause: "read again"})
	if keys := fixed(before, e.config); len(keys) > 0 {
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
