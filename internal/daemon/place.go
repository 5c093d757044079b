package daemon

import (
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// outlook is the plan that the next whole pass will have, as far as narrow passes have got, with its
// input: the last one, and the owners that have come since.
func (l *loop) outlook() (*pools.Input, *pools.Plan) {
	if a := l.agenda.amended; a != nil {
		return &a.input, &a.plan
	}
	return &l.status.input, &l.status.plan
}

// amended is a plan that is ahead of that of the last whole pass.
type amended struct {
	input pools.Input
	plan  pools.Plan
}

// place is what the plan would have for the pod of a container, where that concerns nobody else.
// What the pod gets of its own is assigned to it.
func (l *loop) place(container string, now time.Time) (pools.PodPlan, bool) {
	pod, ok := l.podAlone(container, now)
	if !ok {
		return pools.PodPlan{}, false
	}
	in, plan := l.outlook()
	if placed, ok := pools.Alone(in, plan, pod); ok {
		return placed, true
	}
	if l.needsHints(&pod) {
		return pools.PodPlan{}, false
	}
	next := new(amended)
	if next.input, next.plan, ok = pools.Amend(in, plan, pod); !ok {
		return pools.PodPlan{}, false
	}
	l.agenda.amended = next
	l.assignments = next.plan.Assignments
	l.ledger.assign(l.assignments)
	i := slices.IndexFunc(next.plan.Pods, func(p pools.PodPlan) bool { return p.UID == pod.UID })
	return next.plan.Pods[i], true
}

// podAlone is the pod of a container as the planner wants it, if all is known of it.
func (l *loop) podAlone(container string, now time.Time) (pools.Pod, bool) {
	e := l.model.containers[container]
	if e == nil || l.model.pods[e.container.PodID] == nil {
		return pools.Pod{}, false
	}
	uid := l.model.pods[e.container.PodID].uid
	for _, c := range l.model.members(uid) {
		if c.foreign || c.unread() || l.strangers.has(c.path) {
			return pools.Pod{}, false
		}
	}
	pods := []pools.Pod{l.model.inputOf(uid, now)}
	l.others.mark(l.model, pods, l.settings.topology.Online, l.cgroups.Read)
	if l.devices != nil {
		l.hints.apply(pods)
	}
	return pods[0], true
}

// needsHints says that the kubelet has to be asked about devices of the pod first.
func (l *loop) needsHints(p *pools.Pod) bool {
	if l.devices == nil {
		return false
	}
	want, _ := wantHints(l.settings.pools, []pools.Pod{*p}, l.assignments)
	for k := range want {
		if _, known := l.hints.known[k]; !known {
			return true
		}
	}
	return false
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
