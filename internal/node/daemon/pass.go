package daemon

import (
	"errors"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// decide returns the plan of all pods and units, and the targets of their cgroups.
func (l *Loop) decide(now time.Time) (pools.Plan, []cgroup.Target) {
	s := l.input(now)
	s.Build = l.planner.Build
	d := s.Decide()
	l.status.input, l.status.auxiliary = d.Input, d.Auxiliary
	l.units.SetHosts(d.Hosts)
	return d.Plan, l.unidentified.Limit(d.Plan.Shared, desired.OwnedBy(d.Plan).Union(l.leavingCPUs()), d.Targets)
}

// input returns the state from which a plan is made.
func (l *Loop) input(now time.Time) desired.Input {
	pods := l.inventory.Input(now)
	l.others.Mark(l.inventory, pods, &l.settings, l.cache.State)
	l.askHints(pods, now)
	l.hints.Apply(pods)
	return desired.Input{Settings: l.settings, Inventory: l.inventory, Pods: pods, Previous: l.assignments, Formula: l.formula, Journal: l.journal, Nodes: l.Nodes, Read: l.cache.State,
		Leaving: l.leavingCPUs(), System: l.others.SystemCPUs(l.inventory, &l.settings), Systemd: l.Units != nil, Resting: l.quiet.MayRest(l.assignments), Kubelet: l.kubelet, Partitions: l.partitions.Enabled(),
		Contested: l.backoffs.Contested(now), Namespaces: l.permission.Rights(), Build: pools.Build, Auxiliary: l.auxiliary}
}

// pass decides, compares and writes. Each round makes the file writes before the first slow
// write, and submits the slow writes that follow to workers. Then it compares again: Diff defers
// the writes that depend on slow ones.
func (l *Loop) pass() {
	now := l.now()
	l.status.began = now
	l.quiet.Begin(l.settings.Config.Quiet, now)
	l.settleUpdates(false, now)
	l.askResizes(now)
	for _, owner := range l.requests.Late(now) {
		l.hints.GoWithout(owner)
	}
	l.requests.MarkStarting()
	l.units.AskDue(now)
	l.assignments = l.units.Settle(l.assignments, now)
	l.assignments = recovery.Late(l.inventory, l.cache.State, l.assignments, &l.settings)
	plan, want := l.decide(now)
	if l.formula.IsGuess() || l.quiet.Active() { // the targets depend on the current values
		if l.refreshCache(slices.Clone(want)); l.observeWeights() {
			plan, want = l.decide(now)
		}
	}
	l.publisher.History().NotePlan(&l.status.plan, &plan)
	l.status.plan = plan
	l.noteOthers()
	l.settleQuiet(plan, want, now)
	l.assignments = l.units.Assign(plan.Assignments)
	l.journal.SetAssignments(l.assignments)
	l.journal.SetUnhinted(l.hints.Unhinted())
	l.journal.SetOthers(l.inventory.LeftToPlugins())
	l.noteRefusals(plan, now)
	if l.Observes {
		want = l.refreshCache(want)
		var omitted []cgroup.Write
		omitted, l.status.deferred = l.diff(want, l.diffOptions(plan), now)
		l.publisher.Omit(omitted)
		l.finishPass(want, now)
		return
	}
	l.units.NoteHosts()
	l.units.Revert()

	options := l.diffOptions(plan)
	var deferred []cgroup.Deferred
	made := make(map[cgroup.Write]bool)
	for round := 0; ; round++ {
		if round > maxRounds(len(want)) {
			l.log.Error("pass does not come to an end; the next one goes on", "rounds", round)
			break
		}
		want = l.refreshCache(want)
		if round == 0 {
			l.exposureMeter.NoteFirstReads(want)
			want = l.repartition(want, l.partitions.Dissolve)
		}
		var writes []cgroup.Write
		writes, deferred = l.diff(want, options, now)
		writes, refused := l.writable(writes, made, now)
		l.noteOriginals(writes)
		l.save(now)
		if len(writes) == 0 && !refused {
			l.backoffs.Expire(now, l.cache.IsBusy)
			break
		}
		if l.journal.Blocks() {
			break
		}
		l.apply(writes, made, now)
	}
	want = l.repartition(want, l.partitions.Make)
	l.quiet.Explain(deferred)
	l.status.deferred = deferred
	l.finishPass(want, now)
}

// finishPass ends a pass.
func (l *Loop) finishPass(want []cgroup.Target, now time.Time) {
	l.status.planned = true
	l.watchers.openNRI()
	if fetch := l.status.synchronized; fetch != nil {
		l.status.synchronized = nil
		fetch()
	}
	l.status.targets = want
	l.drifts.Settle(l.status.targets, l.now())
	l.observeExposures(l.now())
	l.removed.DropOriginals()
	l.armRetry(now)
}

// observeExposures counts the containers that are in their pool now, and records unidentified
// containers in the shared pool.
func (l *Loop) observeExposures(now time.Time) {
	l.exposureMeter.ObserveStarts(l.status.targets, now)
	l.exposureMeter.FinishStarts(l.units.Scopes().IsAnswered)
	for p, cpus := range l.unidentified.All() {
		l.exposureMeter.NoteUnidentified(p, cpus, now)
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
	gone, unreadable := l.cache.Refresh(want, l.inventory)
	l.status.unreadable = unreadable
	l.followDrifts(l.now())
	for _, p := range gone {
		l.auxiliary.Note(p, false)
		l.cgroupGone(p)
	}
	l.askUnits(want)
	return slices.DeleteFunc(want, func(t cgroup.Target) bool { return l.removed.IsMissing(t.Path) })
}

// repartition calls Dissolve or Make, and reads the cgroups again that its writes may have changed.
func (l *Loop) repartition(want []cgroup.Target, write func(partition.Situation) bool) []cgroup.Target {
	if !write(partition.Situation{Targets: want, Plan: &l.status.plan, Leaving: l.leavingCPUs(), Watcher: l.watch.Watcher(), Now: l.now()}) {
		return want
	}
	return l.refreshCache(want)
}

// diffOptions returns the options of Diff, with the cgroups of units that leave.
func (l *Loop) diffOptions(p pools.Plan) cgroup.Options {
	o := desired.DiffOptions(&l.Host, p)
	o.Leaving = l.units.LeavingCgroups()
	o.Spare = o.Spare.Difference(l.partitions.Parked())
	return o
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
		case !file && (l.cache.IsBusy(w.Path) || l.unidentified.Has(w.Path)):
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
			if !l.requests.AddUpdate(w, &l.status.plan) {
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
			err = l.cache.MoveThreads(w.Path.Scope()) // the next writes may give its former CPUs to other cgroups
		}
		l.count(w, err)
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

// noteOthers logs the containers that another manager places, each once.
func (l *Loop) noteOthers() {
	for c, claim := range l.others.NewClaims(l.inventory) {
		l.log.Info("left to another manager of CPUs", "pod", l.inventory.PodOf(c).Name(), "container", c.Container.Name, "container_id", c.Container.ID, "manager", claim.By)
	}
}
