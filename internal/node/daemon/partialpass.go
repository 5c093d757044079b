package daemon

import (
	"runtime"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # Narrow passes
//
// A narrow pass answers the runtime about containers, and repairs placed cgroups, with the
// functions of a whole pass on nothing but the pods and cgroups in question. What it relies
// on:
//
//   - Nothing of the last plan changes for others by these pods: none of them has or asks for
//     CPUs of its own (pools.Alone). That others have gone, or ask for something else, and no
//     whole pass has looked at it yet, is no matter: who shares is in the shared pool.
//   - All others are as planned, or on their way without us: nothing was held back by the
//     last whole pass. So nobody has to give way first, and cgroup.Diff of these few has the
//     writes that it would have for them among all.
//
// Where either is not certain, a narrow pass leaves the rest to a whole one, which is due at
// once then. What is kept about the node (plan, targets, problems) only whole passes
// change; one follows soon.
//
// A new owner of CPUs is answered about before the whole pass that it takes, and no other
// event comes between (see place).

// maxPartialRounds bounds the rounds of writes: nobody waits for anybody.
const maxPartialRounds = 4

// partialPass says whether it has done all that cannot wait.
func (l *Loop) partialPass(now time.Time) bool {
	if len(l.schedule.files)+len(l.creating)+len(l.starting) == 0 {
		return true
	}
	return l.allowsPartialPass() && l.repair(now) && l.answerCreates(now) && l.answerStarts(now)
}

// allowsPartialPass says that a whole pass has found all as planned, or nothing more to do about it, and
// that it does not take a look at all cgroups to tell what is to be written.
func (l *Loop) allowsPartialPass() bool {
	return !l.guesses() && l.status.ready && !l.Observes && l.CPUManager == nil && l.isolation.calm() && !l.quiet.Active() && !l.cache.HasStalePartitions() &&
		l.journal.Safe() && l.journal.Late() == nil && !filesWait(l.status.deferred) && len(l.status.unreadable)+len(l.moving)+len(l.waiting)+len(l.status.leaving) == 0
}

// filesWait says that some of what is held back is a file of a cgroup. Records wait without
// holding anybody up.
func filesWait(deferred []cgroup.Deferred) bool {
	return slices.ContainsFunc(deferred, func(d cgroup.Deferred) bool {
		switch d.Property {
		case cgroup.FileCPUs, cgroup.FileMems, cgroup.FileWeight, cgroup.FileMax:
			return true
		}
		return false
	})
}

// repair puts right the cgroups that somebody else has written to.
func (l *Loop) repair(now time.Time) bool {
	if len(l.schedule.files) == 0 {
		return true
	}
	partitions, _ := l.partitions()
	var want []cgroup.Target
	for _, p := range l.schedule.files {
		t := targetAt(l.status.targets, p)
		if t == nil || t.Unit != "" || t.Exclusive && partitions {
			return false // not planned yet, in a slice that others are in, or a partition has to end first
		}
		want = append(want, *t)
	}
	l.schedule.files = nil
	if !l.writeTargets(want, now) {
		return false
	}
	l.settleDrifts(l.now())
	return true
}

// answerCreates answers about containers that are to be created.
func (l *Loop) answerCreates(now time.Time) bool {
	for len(l.creating) > 0 {
		a := l.creating[0]
		if isClosed(a.canceled) {
			return false
		}
		pod, own, ok := l.place(a.container.ID, now)
		if !ok {
			return false
		}
		p := placementIn(&pod, a.container.ID)
		if p == nil {
			return false
		}
		c, done := l.decideCreate(a, &pod, p, now)
		if !done || c.err != nil {
			return false
		}
		if own != nil {
			l.assignments = own
			l.journal.SetAssignments(own)
		}
		l.noteReply(a, now)
		a.answer <- c
		l.creating = l.creating[1:]
		if own != nil {
			runtime.Gosched()      // who has got an answer goes on first
			l.schedule.full = true // the quota of its pod is to be lifted before it starts
			return false
		}
	}
	return true
}

// answerStarts answers about containers that are to be started.
func (l *Loop) answerStarts(now time.Time) bool {
	l.noteStarts()
	for len(l.starting) > 0 {
		a := l.starting[0]
		in, ok := l.podInput(a.id, now)
		if !ok || isClosed(a.canceled) {
			return false
		}
		pod, ok := pools.Alone(&l.status.input, &l.status.plan, in)
		if !ok {
			return false
		}
		want := desired.Targets(pools.Plan{Pods: []pools.PodPlan{pod}}, l.inventory, l.formula, l.settings.Config.PodSliceWeights, l.journal.WroteQuota)
		desired.Unbind(want, l.journal, l.Nodes)
		i := slices.IndexFunc(want, func(t cgroup.Target) bool { return t.Container == a.id })
		if i < 0 || !l.writeTargets(want, now) {
			return false
		}
		done, err := l.decideStart(a, placementIn(&pod, a.id), &want[i], now)
		if !done || err != nil {
			return false
		}
		a.answer <- nil
		l.starting = l.starting[1:]
	}
	return true
}

// writeTargets makes a few cgroups what they should be. It says whether it could do that without
// anybody else: what a worker has to write is left to the next whole pass.
func (l *Loop) writeTargets(want []cgroup.Target, now time.Time) bool {
	options := l.diffOptions(l.status.plan)
	made := make(map[cgroup.Write]bool)
	for range maxPartialRounds {
		gone, unreadable := l.cache.Read(want, l.inventory)
		if len(gone)+len(unreadable) > 0 {
			return false
		}
		l.followDrifts(now)
		l.noteFirstReads(want)
		writes, deferred := l.diff(want, options, now)
		if filesWait(deferred) {
			return false
		}
		slow := slices.IndexFunc(writes, cgroup.Write.Slow)
		if slow >= 0 && slices.ContainsFunc(writes[slow:], func(w cgroup.Write) bool { return !w.Slow() }) {
			return false // a file waits for it
		}
		if slow >= 0 {
			writes = writes[:slow]
		}
		if len(writes) == 0 {
			l.observeStarts(want, l.now())
			return true
		}
		if slices.ContainsFunc(writes, func(w cgroup.Write) bool { return made[w] }) {
			return false // without effect
		}
		if l.noteOriginals(writes); !l.journal.Safe() {
			return false
		}
		l.apply(writes, made, now)
	}
	return false
}

// place is what the plan will have for the pod of a container that is new, where that concerns
// nobody else. own are the assignments with those of the pod, if it gets CPUs of its own.
func (l *Loop) place(container string, now time.Time) (placed pools.PodPlan, own []pools.Assignment, ok bool) {
	pod, ok := l.podInput(container, now)
	if !ok {
		return pools.PodPlan{}, nil, false
	}
	if placed, ok = pools.Alone(&l.status.input, &l.status.plan, pod); ok {
		return placed, nil, true
	}
	if !l.planIsCurrent() || l.Devices != nil && l.hints.Lacks(l.settings.Pools, pod, l.assignments) {
		return pools.PodPlan{}, nil, false
	}
	placed, own, ok = pools.Alongside(&l.status.input, &l.status.plan, pod)
	lacks := func(c pools.Placement) bool {
		return c.Refused != nil || c.Short != nil || c.Reason.Code == pools.CodeWaiting
	}
	return placed, own, ok && !slices.ContainsFunc(placed.Containers, lacks)
}

// planIsCurrent says that nothing has happened since the last whole pass that could make room for an
// owner, or take it, and that all who run anywhere are targets, whose cgroups have been read: CPUs
// that nobody has by the plan are nobody's. Strangers, and containers of which it is not known what
// they are, are no targets as long as they are on nobody's CPUs.
func (l *Loop) planIsCurrent() bool {
	return !l.schedule.changed && !l.cache.HasStale() && len(l.unidentified)+len(desired.UnreadPaths(l.inventory, l.status.plan)) == 0
}

// podInput is the pod of a container as the planner wants it, if all is known of it.
func (l *Loop) podInput(container string, now time.Time) (pools.Pod, bool) {
	e := l.inventory.Container(container)
	if e == nil || l.inventory.PodOf(e) == nil {
		return pools.Pod{}, false
	}
	uid := l.inventory.PodOf(e).UID
	for c := range l.inventory.Members(uid) {
		if c.IsPlacedElsewhere() || c.IsUnread() || l.unidentified.has(c.Path) {
			return pools.Pod{}, false
		}
	}
	pods := []pools.Pod{l.inventory.InputOf(uid, now)}
	l.others.Mark(l.inventory, pods, l.settings.Topology.Online, l.Cgroups.Read)
	l.hints.Apply(pods)
	return pods[0], true
}

// targetAt is the target of a cgroup, nil if there is none.
func targetAt(targets []cgroup.Target, p cgroup.Path) *cgroup.Target {
	for i := range targets {
		if targets[i].Path == p {
			return &targets[i]
		}
	}
	return nil
}
