package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Partial passes
//
// A partial pass answers the runtime about containers and repairs placed cgroups. It runs the
// functions of a full pass for only the pods and cgroups concerned. It relies on two
// conditions:
//
//   - These pods do not change the plan of other pods: none of them has or requests exclusive
//     CPUs (pools.Alone). Changes of other pods since the last full pass do not matter,
//     because these containers run in the shared pool.
//   - All other cgroups are in the desired state, or a worker is writing them: the last full
//     pass deferred no write. So no container must release CPUs first, and cgroup.Diff returns
//     the same writes as in a full pass.
//
// If a condition is uncertain, a full pass follows at once. Only full passes change the plan,
// the targets and the problems; one follows soon.
//
// The reply about a new exclusive container precedes the full pass that it needs, with no
// other event in between (see place). If the reply waits for the disk, the pass waits too: on the
// one event loop, the reply would come after the pass.

// maxPartialRounds is the maximum number of rounds of writes. No write waits for another cgroup.
const maxPartialRounds = 4

// partialPass makes a partial pass. It reports whether all answers and repairs are done.
func (l *Loop) partialPass(now time.Time) bool {
	if l.schedule.answered {
		return l.holdsReply()
	}
	if len(l.schedule.files) == 0 && l.requests.IsEmpty() {
		return true
	}
	return l.allowsPartialPass() && l.repair(now) && l.answerCreates(now) && l.answerStarts(now)
}

// holdsReply reports whether the only request waits for the disk. The end of the save or
// the journal's deadline follows.
func (l *Loop) holdsReply() bool { return l.requests.IsEmpty() && !l.requests.HeldUntil().IsZero() }

// allowsPartialPass reports whether the last full pass left nothing to do, and whether targets
// can be computed without all cgroups.
func (l *Loop) allowsPartialPass() bool {
	return !l.planner.Formula.IsGuess() && l.publisher.IsReady() && !l.Observes && l.CPUManager == nil && l.partitions.IsSettled() && !l.planner.Quiet.Active() &&
		l.journal.Safe() && !l.planner.Quiet.FilesWait(l.last.Deferred) && l.moves.IsEmpty() && len(l.last.Unreadable)+len(l.units.Leaving()) == 0
}

// repair writes the cgroups that another process has changed. It reports whether it is done.
func (l *Loop) repair(now time.Time) bool {
	if len(l.schedule.files) == 0 {
		return true
	}
	var want []cgroup.Target
	for _, p := range l.schedule.files {
		i := slices.IndexFunc(l.last.Targets, func(t cgroup.Target) bool { return t.Path == p })
		if i < 0 {
			return false // not planned yet
		}
		t := &l.last.Targets[i]
		if t.Around || t.Unit != "" || t.Exclusive && l.partitions.Enabled() {
			return false // a slice around others or in one, or a partition must end first
		}
		want = append(want, *t)
	}
	l.schedule.files = nil
	if !l.writeTargets(want, now) {
		return false
	}
	l.drifts.Settle(l.last.Targets, l.now())
	return true
}

// answerCreates answers the create requests. It reports whether it has answered all.
func (l *Loop) answerCreates(now time.Time) bool {
	for a := l.requests.NextCreate(); a != nil; a = l.requests.NextCreate() {
		if a.IsCanceled() {
			return false
		}
		pod, own, ok := l.place(a.Container.ID, now)
		if !ok {
			return false
		}
		p := pod.App(a.Container.ID)
		if p == nil {
			return false
		}
		reply, err := l.decideCreate(a, &pod, p, now)
		if err != nil {
			return false
		}
		if own != nil {
			l.planner.Assign(own)
			l.journal.SetAssignments(own)
			l.publisher.Live.Admit(string(l.inventory.Objects().CgroupOf(p)), p.CPUs)
		}
		l.requests.Accept(a, reply, now)
		l.releaseReplies()
		if own != nil {
			l.schedule.answered = true // the quota of its pod must be lifted before it starts
			return l.holdsReply()
		}
	}
	return true
}

// answerStarts answers the start requests. It reports whether it has answered all.
func (l *Loop) answerStarts(now time.Time) bool {
	l.requests.MarkStarting()
	for a := l.requests.NextStart(); a != nil; a = l.requests.NextStart() {
		in, ok := l.podInput(a.ID, now)
		if !ok || a.IsCanceled() || l.inventory.Objects().Container(a.ID).IsHosted() { // its sandbox is a target
			return false
		}
		pod, ok := pools.Alone(&l.last.Input, &l.last.Plan, in)
		if !ok {
			return false
		}
		facts := desired.Input{Settings: l.settings, Objects: l.inventory.Objects(), Formula: l.planner.Formula, Originals: l.journal.Originals, Nodes: l.Nodes, Contested: l.backoffs.Contested(now)}
		want := facts.Targets(pools.Plan{Pods: []pools.PodPlan{pod}})
		i := slices.IndexFunc(want, func(t cgroup.Target) bool { return t.Container == a.ID })
		if i < 0 || !l.writeTargets(want, now) {
			return false
		}
		if err := l.decideStart(a, pod.App(a.ID), &want[i], now); err != nil {
			return false
		}
		l.requests.Allow(a, now)
	}
	return true
}

// writeTargets writes the files of a few targets. It reports whether the targets are in the
// desired state, except for slow writes, which the next full pass makes.
func (l *Loop) writeTargets(want []cgroup.Target, now time.Time) bool {
	options := l.planner.DiffOptions(l.last.Plan, l.moment(now))
	made := make(map[cgroup.Write]bool)
	for range maxPartialRounds {
		gone, unreadable := l.cache.Read(want, l.inventory.Objects())
		if len(gone)+len(unreadable) > 0 {
			return false
		}
		l.followDrifts(now)
		l.publisher.Exposures.NoteFirstReads(want)
		writes, deferred := l.diff(want, options, now)
		if l.planner.Quiet.FilesWait(deferred) {
			return false
		}
		slow := slices.IndexFunc(writes, cgroup.Write.Slow)
		if slow >= 0 && slices.ContainsFunc(writes[slow:], func(w cgroup.Write) bool { return !w.Slow() }) {
			return false // a file write depends on it
		}
		if slow >= 0 {
			writes = writes[:slow]
		}
		if len(writes) == 0 {
			l.publisher.Exposures.ObserveStarts(want, l.now())
			return true
		}
		if slices.ContainsFunc(writes, func(w cgroup.Write) bool { return made[w] }) {
			return false // without effect
		}
		if l.cache.NoteOriginals(l.journal.Originals, l.inventory.Objects(), writes); !l.journal.Safe() {
			return false
		}
		l.apply(writes, made, now)
	}
	return false
}

// place returns the plan of the pod of a new container, if no other pod changes with it. If the
// pod gets exclusive CPUs, own holds the assignments of the node with the pod's.
func (l *Loop) place(container string, now time.Time) (placed pools.PodPlan, own []pools.Assignment, ok bool) {
	pod, ok := l.podInput(container, now)
	if !ok {
		return pools.PodPlan{}, nil, false
	}
	if placed, ok = pools.Alone(&l.last.Input, &l.last.Plan, pod); ok {
		return placed, nil, true
	}
	// The last plan is current only if no event has changed other owners since. Unidentified and unread
	// containers can be without a target.
	isCurrent := l.schedule.concernsOnly(l.inventory.Objects().Container(container).Container.PodID) && l.notices.Unidentified.IsEmpty() && !l.last.HasUnread
	if !isCurrent || l.planner.LacksHints(pod) {
		return pools.PodPlan{}, nil, false
	}
	placed, own, ok = pools.Alongside(&l.last.Input, &l.last.Plan, pod)
	lacks := func(c pools.Placement) bool {
		return c.Refused != nil || c.Short != nil || c.Reason.Code == pools.CodeWaiting
	}
	return placed, own, ok && !slices.ContainsFunc(placed.Containers, lacks) && kernelstate.ReadStale(l.cache, l.last.Targets, l.inventory.Objects())
}

// podInput returns the planner's input for the pod of a container, if the inventory of the pod
// is complete.
func (l *Loop) podInput(container string, now time.Time) (pools.Pod, bool) {
	e := l.inventory.Objects().Container(container)
	if e == nil || e.Pod() == nil {
		return pools.Pod{}, false
	}
	uid := e.Pod().UID
	for c := range l.inventory.Objects().Members(uid) {
		if c.IsPlacedElsewhere() || c.IsUnread() || l.notices.Unidentified.Has(c.Path) {
			return pools.Pod{}, false
		}
	}
	return l.planner.PodInput(uid, now), true
}
