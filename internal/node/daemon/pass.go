package daemon

import (
	"errors"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// decide returns the plan of all pods and units, and the targets of their cgroups.
func (l *Loop) decide(m planning.Moment) (pools.Plan, []cgroup.Target) {
	d := l.planner.Decide(m)
	before := l.last.Decision
	l.last.Decision = d
	l.last.Plan, l.last.Targets = before.Plan, before.Targets // until the pass has compared and written
	l.units.SetHosts(d.Hosts)
	return d.Plan, l.notices.Unidentified.Limit(d.Plan.Shared, d.Owned.Union(m.Withheld()), d.Targets)
}

// pass decides, compares and writes. Each round makes the file writes before the first slow
// write, and submits the slow writes that follow to workers. Then it compares again: Diff defers
// the writes that depend on slow ones.
func (l *Loop) pass() {
	now := l.now()
	l.last.Began = now
	l.planner.Quiet.Begin(l.settings.Config.Quiet, now)
	l.settleUpdates(false, now)
	l.askResizes(now)
	for _, owner := range l.requests.Late(now) {
		l.planner.Hints.GoWithout(owner)
	}
	l.requests.MarkStarting()
	l.units.AskDue(now)
	l.planner.Assign(l.units.Settle(l.planner.Assignments(), now))
	l.planner.RecoverLate(l.inventory.TakeUnrecovered())
	moment := l.moment(now)
	plan, want := l.decide(moment)
	if l.planner.Formula.IsGuess() || l.planner.Quiet.Active() { // the targets depend on the current values
		if l.refreshCache(slices.Clone(want)); l.planner.ObserveWeights(l.cache.Current) {
			plan, want = l.decide(moment)
		}
	}
	l.publisher.History().NotePlan(&l.last.Plan, &plan)
	l.last.Plan = plan
	l.publisher.Handover(&l.last) // before the first write
	l.planner.NotePlacings()
	l.planner.SettleQuiet(plan, want, l.drifts.ChangedWeights(), now)
	l.planner.Assign(l.units.Assign(plan.Assignments))
	l.journal.SetAssignments(l.planner.Assignments())
	l.journal.SetClaims(l.planner.Claims.All())
	l.planner.Claims.NotePlanned(l.journal.Newest())
	l.journal.SetUnhinted(l.planner.Hints.Unhinted())
	l.journal.SetOthers(l.inventory.LeftToPlugins())
	l.noteRefusals(plan, now)
	l.cache.InvalidateUnreachable(want)
	if l.Observes {
		want = l.refreshCache(want)
		var omitted []cgroup.Write
		omitted, l.last.Deferred = l.diff(want, l.planner.DiffOptions(plan, moment), now)
		l.publisher.Omit(omitted)
		l.finishPass(want, now)
		return
	}
	l.units.NoteHosts()
	l.units.Revert()

	options := l.planner.DiffOptions(plan, moment)
	var deferred []cgroup.Deferred
	made := make(map[cgroup.Write]bool)
	for round := 0; ; round++ {
		if round > maxRounds(len(want)) {
			l.log.Error("pass does not come to an end; the next one goes on", "rounds", round)
			break
		}
		want = l.refreshCache(want)
		if round == 0 {
			l.publisher.Exposures.NoteFirstReads(want)
			want = l.repartition(want, l.partitions.Dissolve)
		}
		var writes []cgroup.Write
		writes, deferred = l.diff(want, options, now)
		writes, refused := l.writable(writes, made, now)
		l.amendQuotas(want)
		l.cache.NoteOriginals(l.journal.Originals, l.inventory.Objects(), writes)
		l.save(now)
		if len(writes) == 0 && !refused {
			l.backoffs.Expire(now, l.cache.Writes.IsBusy)
			break
		}
		if l.journal.Blocks() {
			break
		}
		l.apply(writes, made, now)
	}
	want = l.repartition(want, l.partitions.Make)
	l.planner.Quiet.Explain(deferred)
	l.last.Deferred = deferred
	l.finishPass(want, now)
}

// finishPass ends a pass.
func (l *Loop) finishPass(want []cgroup.Target, now time.Time) {
	l.last.Planned = true
	l.watchers.openNRI()
	if fetch := l.schedule.afterPass; fetch != nil {
		l.schedule.afterPass = nil
		fetch()
	}
	l.last.Targets = want
	l.drifts.Settle(l.last.Targets, l.now())
	l.publisher.Exposures.Observe(l.last.Targets, l.units.Scopes().IsAnswered, l.notices.Unidentified.All(), l.now())
	l.notices.Removed.DropOriginals()
	l.armRetry(now)
}

// amendQuotas gives the journal the quotas that the kubelet requests now for containers without a quota.
func (l *Loop) amendQuotas(want []cgroup.Target) {
	for i := range want {
		t := &want[i]
		if !t.Unlimited || t.Container == "" {
			continue
		}
		if e := l.inventory.Objects().Container(t.Container); e != nil {
			l.journal.Originals.AmendQuota(t.Path, e.Container.Requested.Quota, e.Container.Requested.Period)
		}
	}
}

// maxRounds returns the maximum number of rounds of a pass over n targets. Each round makes a
// new write or starts a backoff, so a pass ends without the bound. If this reasoning is wrong,
// the bound keeps the event loop running.
func maxRounds(n int) int { return 64 + 16*n }

// refreshCache reads new and stale cgroups and returns the targets whose cgroup exists. A
// running container without a cgroup has ended or is ending: the daemon fetches it again, and
// writes nothing until the runtime has answered.
func (l *Loop) refreshCache(want []cgroup.Target) []cgroup.Target {
	gone, unreadable := l.cache.Refresh(want, l.inventory.Objects())
	l.last.Unreadable = unreadable
	l.followDrifts(l.now())
	for _, p := range gone {
		l.notices.Auxiliary.Note(p, false)
		l.cgroupGone(p)
	}
	l.askUnits(want)
	return slices.DeleteFunc(want, func(t cgroup.Target) bool { return l.notices.Removed.IsMissing(t.Path) })
}

// repartition calls Dissolve or Make, and reads the cgroups again that its writes may have changed.
func (l *Loop) repartition(want []cgroup.Target, write func(partition.Situation) bool) []cgroup.Target {
	if !write(partition.Situation{Targets: want, Plan: &l.last.Plan, Leaving: l.moment(l.now()).Withheld(), Watcher: l.notices.Tree.Watcher(), Now: l.now()}) {
		return want
	}
	return l.refreshCache(want)
}

// writable returns writes without the slow writes of busy cgroups and without writes that had
// no effect in this pass. refused reports whether a write had no effect, so that Diff must run
// again. The list ends before the first file write that may depend on an omitted slow write.
func (l *Loop) writable(writes []cgroup.Write, made map[cgroup.Write]bool, now time.Time) (out []cgroup.Write, refused bool) {
	cut := false
	for _, w := range writes {
		file := !w.Slow()
		switch {
		case file && cut:
			return out, refused
		case file && made[w]:
			l.backoffs.RefuseRepeated(w, now)
			return out, true
		case !file && (l.cache.Writes.IsBusy(w.Path) || l.notices.Unidentified.Has(w.Path)):
			cut = true
		case !file && l.backoffs.Repeated(w, now):
			cut, refused = true, true
		default:
			out = append(out, w)
		}
	}
	return out, refused
}

// apply carries out one round of writes.
func (l *Loop) apply(writes []cgroup.Write, made map[cgroup.Write]bool, now time.Time) {
	refused := make(map[cgroup.Path]*cpuset.Set)
	for i, w := range writes {
		if w.Slow() {
			if refused[w.Path] == nil {
				refused[w.Path] = new(cpuset.Set)
			}
			if !l.requests.AddUpdate(w, &l.last.Plan) {
				l.submit(w, refused[w.Path])
			}
			if i+1 < len(writes) && !writes[i+1].Slow() {
				return
			}
			continue
		}
		err := l.Cgroups.Apply(w)
		made[w] = true
		l.cache.NoteWrite(w, err)
		if err == nil && w.Property == cgroup.FileCPUs {
			err = l.cache.Threads.Move(w.Path.Scope()) // the next writes may give its former CPUs to other cgroups
		}
		l.publisher.Count(w, err)
		switch {
		case err == nil:
			l.backoffs.Succeed(w, now)
		case errors.Is(err, cgroup.ErrGone):
			l.cgroupGone(w.Path.Scope())
			return // its CPUs are free: compare again
		default:
			l.backoffs.Refuse(w, err, now)
			return // the following writes may depend on it
		}
	}
}
