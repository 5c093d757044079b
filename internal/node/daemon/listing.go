package daemon

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// pollInterval is the interval of listings of a runtime without an event stream.
const pollInterval = time.Second

// resync starts a listing and schedules a scan of all cgroups. The pass after the listing makes
// the scan, or a full pass after fullPassDelay if the runtime is slow.
func (l *Loop) resync(now time.Time) {
	if l.schedule.listings.ScheduleScan(now, l.settings.Config.ResyncPeriod) {
		l.schedule.recheck.Set(l.now().Add(fullPassDelay))
		if l.CPUs != nil { // an event may have been lost
			l.workers.Queries.Submit("cpus", func(context.Context) event {
				l.watchers.usable.Resync(l.watchers.useCPUs)
				return nil
			})
		}
	}
	l.schedule.resync.Set(l.now().Add(l.resyncPeriod())) // also if the listing never ends
	l.list()
}

// startRecheck makes the next full pass scan all cgroups, if a resync has scheduled that. It waits
// for the full pass, because partial passes must still see external writes at once.
func (l *Loop) startRecheck() {
	if l.schedule.full && l.schedule.listings.Scan() {
		l.memory.NoteScan()
		l.schedule.recheck.Clear()
		l.publisher.Files.Recheck()
		l.cache.Recheck(l.notices.Tree.IsWatched, l.settings.Config.ResyncPeriod)
		l.partitions.RecheckAll()
	}
}

// firstAnswer is how long the first listing waits for the runtime to connect over NRI. A
// listing that begins after the connection contains the resizes before it, of which only NRI
// has events.
const firstAnswer = time.Second

// begin starts the first listing. With early replies it comes after the answer of NRI. The daemon
// sends no early replies if the journal has no originals of this boot, or if another plugin has
// placed containers: the journal does not have their CPUs.
func (l *Loop) begin() {
	if l.NRISocket == "" || l.journal.Originals.WasBare() || len(l.journal.Facts().Others) > 0 {
		l.list()
		return
	}
	if l.CRIO != nil { // before the first request with annotations that only it names
		crio := l.CRIO()
		l.Annotations.Learn(crio)
		l.planner.Others.Learn(crio, l.inventory.Objects())
	}
	l.watchers.openNRI()
	l.schedule.resync.Set(l.now().Add(firstAnswer))
}

// list fetches all pods and containers from the runtime, and the configured units from systemd.
func (l *Loop) list() {
	if !l.schedule.listings.Begin(l.now()) {
		return // the result of the listing in progress sets the next resync
	}
	q := l.inventory.Query(l.settings.UnitNames(), !l.schedule.listings.HasListed())
	q.InPods = l.notices.Tree.State() != telemetry.SourceOK // otherwise notices report them
	l.workers.Queries.Submit("list", func(ctx context.Context) event {
		return listed{q.List(ctx, &l.Host)}
	})
}

// listed is the result of a listing.
type listed struct{ lookup.Listing }

func (e listed) apply(l *Loop) {
	l.planner.Hints.AskAgain()
	l.publisher.States.Listed(e.Err)
	if e.Err != nil {
		l.schedule.resync.Set(l.now().Add(l.schedule.listings.Fail(l.resyncPeriod())))
		return
	}
	l.notices.Removed.Listed()
	l.units.Scopes().AskAgain()
	l.units.RevertAgain()
	l.planner.Others.Learn(e.Crio, l.inventory.Objects())
	l.inventory.Merge(e.Listing)
	for _, u := range e.Units {
		l.units.Note(u, l.now())
	}
	l.notices.Auxiliary.NoteAll(e.InPods)
	isFirst, now := !l.schedule.listings.HasListed(), l.now()
	delay, early := l.schedule.listings.End(len(e.Failed) > 0, now, l.resyncPeriod())
	l.schedule.resync.Set(now.Add(delay))
	if early {
		// Unread containers keep their CPUs. But free CPUs are known only with all containers.
		l.log.Warn("first listing is incomplete; asking again before anything is written", "error", errors.Join(e.Failed...))
		return
	}
	if isFirst {
		if !l.settings.Pools.Kubelet { // a static kubelet, not a plugin, has chosen CPUs at creation
			l.inventory.Recall(l.journal.Facts().Others)
		}
		l.planner.Assign(l.units.Assign(l.planner.Recovered()))
		now = l.now()
		l.inventory.BeginWatch(now)
		l.memory.Start(now)
	}
	l.prune()
}

func (l *Loop) resyncPeriod() time.Duration {
	if l.publisher.States.PollsRuntime() {
		return min(pollInterval, l.settings.Config.ResyncPeriod)
	}
	return l.settings.Config.ResyncPeriod
}

// prune drops the state of removed cgroups and pods.
func (l *Loop) prune() {
	gone := l.notices.Removed.Prune()
	l.backoffs.Forget(gone)
	l.publisher.Exposures.Forget(gone)
	there := make(map[string]bool)
	for p := range l.inventory.Objects().Pods() {
		there[p.UID] = true
	}
	l.planner.Hints.Forget(there)
	l.requests.Forget()
}

// cgroupGone fetches the container or pod of a removed cgroup from the runtime. For a unit,
// which may be stopped, it fetches the properties from systemd.
func (l *Loop) cgroupGone(p cgroup.Path) {
	l.partitions.Memory.Gone(p)
	l.publisher.Live.Gone(string(p))
	if name := l.inventory.Objects().Units().At(p); name != "" {
		l.cache.Invalidate(p)
		l.units.Ask(name, l.now())
		return
	}
	container, sandbox := l.notices.Removed.NoteMissing(p)
	if container != "" {
		l.fetchContainer(container)
	} else if sandbox != "" {
		l.fetchPod(sandbox)
	}
}
