package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// place is what the plan will have for the pod of a container that is new, where that concerns
// nobody else. own are the assignments with those of the pod, if it gets CPUs of its own.
func (l *Loop) place(container string, now time.Time) (placed pools.PodPlan, own []pools.Assignment, ok bool) {
	pod, ok := l.podAlone(container, now)
	if !ok {
		return pools.PodPlan{}, nil, false
	}
	if placed, ok = pools.Alone(&l.status.input, &l.status.plan, pod); ok {
		return placed, nil, true
	}
	if !l.nothingElse() || l.Devices != nil && l.hints.Lacks(l.settings.Pools, pod, l.assignments) {
		return pools.PodPlan{}, nil, false
	}
	placed, own, ok = pools.Alongside(&l.status.input, &l.status.plan, pod)
	lacks := func(c pools.Placement) bool {
		return c.Refused != nil || c.Short != nil || c.Reason.Code == pools.CodeWaiting
	}
	return placed, own, ok && !slices.ContainsFunc(placed.Containers, lacks)
}

// nothingElse says that nothing has happened since the last whole pass that could make room for an
// owner, or take it, and that all who run anywhere are targets, whose cgroups have been read: CPUs
// that nobody has by the plan are nobody's. Strangers, and containers of which it is not known what
// they are, are no targets as long as they are on nobody's CPUs.
func (l *Loop) nothingElse() bool {
	return !l.schedule.changed && !l.cache.HasStale() && len(l.unidentified)+len(desired.UnreadPaths(l.inventory, l.status.plan)) == 0
}

// podAlone is the pod of a container as the planner wants it, if all is known of it.
func (l *Loop) podAlone(container string, now time.Time) (pools.Pod, bool) {
	e := l.inventory.Container(container)
	if e == nil || l.inventory.PodOf(e) == nil {
		return pools.Pod{}, false
	}
	uid := l.inventory.PodOf(e).UID
	for _, c := range l.inventory.Members(uid) {
		if c.PlacedElsewhere || c.Unread() || l.unidentified.has(c.Path) {
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
