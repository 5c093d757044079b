package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/actor"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	recoverys "github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func (l *loop) decide(now time.Time) (pools.Plan, []cgroup.Target) {
	s := l.scene(now)
	s.Build = l.planner.Build
	in, plan, want := s.Consider()
	l.status.input = in
	l.status.hosts = s.Verdicts(plan, want)
	return plan, l.confine(plan.Shared, desired.OwnedBy(plan).Union(l.leavingCPUs()), want)
}

// scene is what is known now.
func (l *loop) scene(now time.Time) desired.Scene {
	pods := l.model.Input(now)
	l.others.Mark(l.model, pods, l.settings.Topology.Online, l.Cgroups.Read)
	l.askHints(pods, now)
	l.hints.Apply(pods)
	partitions, _ := l.partitions()
	return desired.Scene{Settings: l.settings, Model: l.model, Pods: pods, Previous: l.assignments, Formula: l.formula, Ledger: l.ledger, Nodes: l.Nodes, Read: l.Cgroups.Read,
		Leaving: l.leavingCPUs(), Systemd: l.Units != nil, Resting: l.quiet.Rest(l.assignments), Kubelet: l.kubelet, Partitions: partitions,
		Namespaces: l.permission.rights(), Build: pools.Build}
}

// pass decides, compares and writes. Every round carries out the writes up to
// the first that a worker has to make, hands that and those next to it over,
// and compares again: what must wait for them is held back by Diff, and what
// need not goes on at once.
func (l *loop) pass() {
	now := time.Now()
	l.status.began = now
	l.quiet.Begin(l.settings.Config.Quiet, now)
	l.settlePromises(false, now)
	l.settleResizes(now)
	l.hurry(now)
	l.noteStarts()
	l.askDue(now)
	l.settleUnits()
	l.assignments = recoverys.AdoptLate(l.model, l.Cgroups.Read, l.assignments, &l.settings)
	plan, want := l.decide(now)
	if l.guesses() || l.quiet.On { // what to write depends on what is there
		if l.look(slices.Clone(want)); l.observeWeights() {
			plan, want = l.decide(now)
		}
	}
	l.chronicle.NotePlan(&l.status.plan, &plan)
	l.status.plan = plan
	l.noteOthers()
	l.settleQuiet(plan, want, now)
	l.assignments = append(slices.Clip(plan.Assignments), l.status.leaving...)
	l.ledger.Assign(l.assignments)
	l.ledger.GoWithout(l.hints.Unhinted())
	l.ledger.Leave(l.model.LeftToPlugins())
	l.noteRefusals(plan, now)
	if l.Observes {
		want = l.look(want)
		l.observe(want, l.liveOptions(plan), now)
		l.passed(want, now)
		return
	}
	l.claim()
	l.yield()
	l.revertUnits()

	options := l.liveOptions(plan)
	var deferred []cgroup.Deferred
	made := make(map[cgroup.Write]bool)
	for round := 0; ; round++ {
		if round > maxRounds(len(want)) {
			l.log.Error("pass does not come to an end; the next one goes on", "rounds", round)
			break
		}
		want = l.look(want)
		if round == 0 {
			l.firstSight(want)
			want = l.repartition(want, true)
		}
		var writes []cgroup.Write
		writes, deferred = l.diff(want, options, now)
		writes, refused := l.due(writes, made, now)
		l.noteOriginals(writes)
		l.save(now)
		if len(writes) == 0 && !refused {
			l.bench.Outlived(now, l.tree.Busy)
			break
		}
		if !l.ledger.Safe() && !l.status.journalLate {
			break
		}
		l.apply(writes, made, now)
	}
	want = l.repartition(want, false)
	l.rest()
	l.quiet.Explain(deferred)
	l.status.deferred = deferred
	l.passed(want, now)
}

// passed ends a pass.
func (l *loop) passed(want []cgroup.Target, now time.Time) {
	if !l.status.planned {
		l.status.planned = true
		close(l.plannedOnce)
	}
	l.status.targets = want
	l.settleDrifts(time.Now())
	l.settleExposures(time.Now())
	l.shed()
	l.armRetry(now)
}

// maxRounds bounds a pass over n targets. Each round writes what was not written
// before or rests somebody; the bound is there for the case that this reasoning
// has a hole, because an owner that never comes back is worse than any cgroup.
func maxRounds(n int) int { return 64 + 16*n }

// look reads what is new or stale and returns the targets whose cgroup is there.
// A running container without a cgroup has ended, or is about to: the runtime
// is asked again, and until it has answered there is nothing to write.
func (l *loop) look(want []cgroup.Target) []cgroup.Target {
	gone, unreadable := l.tree.Refresh(want, l.model)
	l.status.unreadable = unreadable
	l.forgetStuck()
	l.followDrifts(time.Now())
	for _, p := range gone {
		l.vanish(p)
	}
	l.askUnits(want)
	return slices.DeleteFunc(want, func(t cgroup.Target) bool { return l.status.vanished[t.Path] != "" })
}

// askUnits asks systemd what it holds for containers of which that is not known:
// those that have come up since they were created.
func (l *loop) askUnits(want []cgroup.Target) {
	if l.Units == nil {
		return
	}
	for i := range want {
		t := &want[i]
		if t.Container == "" {
			continue
		}
		c := l.tree.Current[t.Path]
		if !c.Exists || c.Unit.Known || l.model.Awaited(*t) || l.tree.Busy(t.Path) || l.status.unitAsked[t.Path] {
			continue
		}
		l.askProperties(t.Path)
	}
}

func (l *loop) askProperties(p cgroup.Path) {
	l.status.unitAsked[p], l.status.unitAwaited[p] = true, true
	// Among the seals, so that no answer is older than the last of them.
	l.Seals.Submit(string(p), func(ctx context.Context) actor.Event {
		ctx, cancel := context.WithTimeout(ctx, hostenv.CallTimeout)
		defer cancel()
		return unitRead{path: p, unit: hostenv.UnitState(ctx, l.Units, p)}
	})
}

// liveOptions are those of a daemon, which knows of units that are about to leave.
func (l *loop) liveOptions(p pools.Plan) cgroup.Options {
	o := desired.DiffOptions(&l.Host, p)
	o.Leaving = l.leavingCgroups()
	o.Spare = o.Spare.Difference(l.isolation.parking.cpus)
	return o
}

// due leaves out what a worker is already at, and what was written only just now
// without effect; refused says that there was any of the latter, so that Diff
// has to be asked again. Files that come after a seal that is left out may rely
// on it: the list ends before them.
func (l *loop) due(writes []cgroup.Write, made map[cgroup.Write]bool, now time.Time) (out []cgroup.Write, refused bool) {
	cut := false
	for _, w := range writes {
		file := !w.Slow()
		switch {
		case file && cut:
			return out, refused
		case file && made[w]:
			l.bench.Refuse(w, retry.ErrNoEffect, now)
			return out, true
		case !file && (l.tree.Busy(w.Path) || l.strangers.has(w.Path)):
			cut = true
		case !file && l.bench.Repeated(w, now):
			cut, refused = true, true
		default:
			out = append(out, w)
		}
	}
	return out, refused
}

// apply carries out one round of writes.
func (l *loop) apply(writes []cgroup.Write, made map[cgroup.Write]bool, now time.Time) {
	refused := make(map[cgroup.Path]*cpuset.Set)
	for i, w := range writes {
		if w.Slow() {
			if refused[w.Path] == nil {
				refused[w.Path] = new(cpuset.Set)
			}
			if !l.promised(w) {
				l.submit(w, refused[w.Path])
			}
			if i+1 < len(writes) && !writes[i+1].Slow() {
				return
			}
			continue
		}
		err := l.Cgroups.Apply(w)
		made[w] = true
		l.tree.Wrote(w, err)
		if err == nil && w.Property == cgroup.FileCPUs {
			err = l.gather(w.Path.Scope()) // what follows may give to others what it has left
		}
		l.count(w, err)
		switch {
		case err == nil:
			l.bench.Succeed(w, now)
		case errors.Is(err, cgroup.ErrGone):
			l.vanish(w.Path.Scope())
			return // it has given way for good: compare again
		default:
			l.bench.Refuse(w, err, now)
			return // what follows may rely on it
		}
	}
}
