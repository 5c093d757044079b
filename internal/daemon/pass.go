package daemon

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// scene is everything that a decision depends on.
type scene struct {
	settings settings
	model    *model
	pods     []pools.Pod // of the model, with hints
	previous []pools.Assignment
	formula  config.WeightFormula
	ledger   *ledger
	nodes    cpuset.Set // NUMA nodes with memory
	read     func(cgroup.Path) (cgroup.State, error)
	leaving  cpuset.Set // CPUs of units that have not left them yet
	systemd  bool       // units are asked for
	resting  cpuset.Set // CPUs that may stay out of the shared pool
	kubelet  kubeletCPUs

	partitions bool // owners become partitions
	namespaces pools.NamespaceRights

	build func(pools.Input) pools.Plan // pools.Build, or one that has the last plan
}

// decide is the whole decision, from what is known to what should be.
func (s scene) decide() (pools.Plan, []cgroup.Target) {
	_, plan, want := s.consider()
	return plan, want
}

// consider is decide, and tells what the plan was made from, too.
func (s scene) consider() (pools.Input, pools.Plan, []cgroup.Target) {
	in := s.input()
	plan := s.build(in)
	if !plan.Resting.IsEmpty() && s.narrows(plan) {
		in.Resting = cpuset.Set{}
		plan = pools.Build(in)
	}
	want := targets(plan, s.model, s.formula, s.settings.config.PodSliceWeights, s.ledger.lifted)
	unbind(want, s.ledger, s.nodes)
	return in, plan, s.withHost(plan, s.stay(plan, want))
}

// narrows says that an owner gets CPUs that neither rested nor were assigned. Then the
// shared pool has to be written at once, and nothing is spared by what would rest.
func (s scene) narrows(plan pools.Plan) bool {
	return slices.ContainsFunc(plan.Assignments, func(a pools.Assignment) bool { return !a.CPUs.IsSubsetOf(s.resting) })
}

func (s scene) input() pools.Input {
	return pools.Input{
		Machine:  s.settings.machine,
		Pools:    s.placeable(),
		Names:    s.settings.names,
		Pods:     s.pods,
		Previous: s.previous,
		Held:     s.kubelet.held,
		Resting:  s.resting,

		StaticPods: s.settings.config.StaticPods,
		Namespaces: s.namespaces,

		Partitions: s.partitions,
		Interrupts: s.settings.config.Interrupts.Away != config.AwayOff,
	}
}

func (l *loop) decide(now time.Time) (pools.Plan, []cgroup.Target) {
	s := l.scene(now)
	s.build = l.planner.Build
	in, plan, want := s.consider()
	l.status.input = in
	l.status.hosts = s.verdicts(plan, want)
	return plan, l.confine(plan.Shared, ownedBy(plan).Union(l.leavingCPUs()), want)
}

// scene is what is known now.
func (l *loop) scene(now time.Time) scene {
	pods := l.model.input(now)
	l.others.mark(l.model, pods, l.settings.topology.Online, l.cgroups.Read)
	l.askHints(pods, now)
	l.hints.apply(pods)
	partitions, _ := l.partitions()
	return scene{settings: l.settings, model: l.model, pods: pods, previous: l.assignments, formula: l.formula, ledger: l.ledger, nodes: l.nodes, read: l.cgroups.Read,
		leaving: l.leavingCPUs(), systemd: l.units != nil, resting: l.quiet.rest(l.assignments), kubelet: l.kubelet, partitions: partitions,
		namespaces: l.permission.rights(), build: pools.Build}
}

// pass decides, compares and writes. Every round carries out the writes up to
// the first that a worker has to make, hands that and those next to it over,
// and compares again: what must wait for them is held back by Diff, and what
// need not goes on at once.
func (l *loop) pass() {
	now := time.Now()
	l.status.began = now
	l.quiet.begin(l.settings.config.Quiet, now)
	l.settlePromises(false, now)
	l.settleResizes(now)
	l.hurry(now)
	l.noteStarts()
	l.askDue(now)
	l.settleUnits()
	l.assignments = adoptLate(l.model, l.cgroups.Read, l.assignments, &l.settings)
	plan, want := l.decide(now)
	if l.guesses() || l.quiet.on { // what to write depends on what is there
		if l.look(slices.Clone(want)); l.observeWeights() {
			plan, want = l.decide(now)
		}
	}
	l.chronicle.notePlan(&l.status.plan, &plan)
	l.status.plan = plan
	l.noteOthers()
	l.settleQuiet(plan, want, now)
	l.assignments = append(slices.Clip(plan.Assignments), l.status.leaving...)
	l.ledger.assign(l.assignments)
	l.ledger.goWithout(l.hints.unhinted())
	l.ledger.leave(l.model.leftToPlugins())
	l.noteRefusals(plan, now)
	if l.observes {
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
			l.bench.outlived(now, l.tree.busy)
			break
		}
		if !l.ledger.safe() && !l.status.journalLate {
			break
		}
		l.apply(writes, made, now)
	}
	want = l.repartition(want, false)
	l.rest()
	l.quiet.explain(deferred)
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
	gone, unreadable := l.tree.refresh(want, l.model)
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
	if l.units == nil {
		return
	}
	for i := range want {
		t := &want[i]
		if t.Container == "" {
			continue
		}
		c := l.tree.current[t.Path]
		if !c.Exists || c.Unit.Known || l.model.awaited(*t) || l.tree.busy(t.Path) || l.status.unitAsked[t.Path] {
			continue
		}
		l.askProperties(t.Path)
	}
}

func (l *loop) askProperties(p cgroup.Path) {
	l.status.unitAsked[p], l.status.unitAwaited[p] = true, true
	// Among the seals, so that no answer is older than the last of them.
	l.seals.submit(string(p), func(ctx context.Context) event {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		return unitRead{path: p, unit: unitState(ctx, l.units, p)}
	})
}

// liveOptions are those of a daemon, which knows of units that are about to leave.
func (l *loop) liveOptions(p pools.Plan) cgroup.Options {
	o := l.diffOptions(p)
	o.Leaving = l.leavingCgroups()
	o.Spare = o.Spare.Difference(l.isolation.parking.cpus)
	return o
}

func (h *host) diffOptions(p pools.Plan) cgroup.Options {
	return cgroup.Options{Driver: h.driver, Possible: h.possible, Nodes: h.nodes, Spare: p.Free.Difference(p.Shared)}
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
			l.bench.refuse(w, errNoEffect, now)
			return out, true
		case !file && (l.tree.busy(w.Path) || l.strangers.has(w.Path)):
			cut = true
		case !file && l.bench.repeated(w, now):
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
		err := l.cgroups.Apply(w)
		made[w] = true
		l.tree.wrote(w, err)
		if err == nil && w.Property == cgroup.FileCPUs {
			err = l.gather(w.Path.Scope()) // what follows may give to others what it has left
		}
		l.count(w, err)
		switch {
		case err == nil:
			l.bench.succeed(w, now)
		case errors.Is(err, cgroup.ErrGone):
			l.vanish(w.Path.Scope())
			return // it has given way for good: compare again
		default:
			l.bench.refuse(w, err, now)
			return // what follows may rely on it
		}
	}
}
