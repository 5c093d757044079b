package daemon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # The life of a container with NRI
//
// The runtime asks about a container before it creates it (createRequest). The loop adds
// the container to the inventory: it is planned like any other, but no cgroup and no record
// of it are read. If the runtime has reported the total of the pod with its sandbox, CPUs are
// reserved. With `from: shared`, other containers have left them. If the container needs more, the
// pass that follows writes the files of the containers that release CPUs. The updates of their
// records go into the reply, and the runtime makes them (package requests). Then the loop replies
// with the planned CPUs, if the kernel shows that no other container is on them. From then on the
// container counts as created and not started, with these CPUs recorded. The daemon sends no
// request about it until the runtime shows that the container exists (unconfirmed).
//
// The runtime asks again when the cgroup exists and its first process waits in it
// (startRequest). The loop first writes the changes since its reply to the cgroup's files.
//
// A reply that depends on another move or on the kubelet waits for at most waits.Timeout, and
// for less if earlier waits have used the budget. The loop continues while the reply waits.

var errUnknownPod = errors.New("pod is unknown or being removed")

// createRequest is a request to create a container.
type createRequest struct{ *requests.Create }

func (createRequest) scope(*Loop) scope { return scopeAnswer }

func (a createRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now()) // the runtime has finished the creation before this one
	if err := l.useClaims(a.Container.Claims, a.Pod.UID, a.Container.Name); err != nil {
		l.log.Warn("container refused", "pod", a.Pod.Namespace+"/"+a.Pod.Name, "container", a.Container.Name, "error", err)
		l.requests.Refuse(a.Create, err)
		return
	}
	l.fetchEarlier(l.requests.AddCreate(a.Create, l.settings.Pools.Kubelet))
}

// startRequest is a request to start the first process of a container.
type startRequest struct{ *requests.Start }

func (startRequest) scope(*Loop) scope { return scopeOne }

func (a startRequest) apply(l *Loop) {
	if l.requests.AddStart(a.Start) {
		l.fetchContainer(a.ID)
	}
}

// answerHooks answers runtime requests that are decided or timed out. It reports whether
// another pass is needed. A request has timed out if its wait was over when the pass began: only
// then has the pass decided without the kubelet's hints.
func (l *Loop) answerHooks(now time.Time) (again bool) {
	plan := &l.last.Plan
	if !l.last.Planned && l.requests.NextCreate() != nil {
		p := l.planner.Early(now)
		plan = &p
	}
	again = l.requests.AnswerCreates(now, func(a *requests.Create) (nri.Reply, error) {
		pod, p := plan.App(a.Container.ID)
		return l.decideCreate(a, pod, p, l.last.Began)
	})
	l.releaseReplies()
	return l.requests.AnswerStarts(now, func(a *requests.Start) (*pools.PodPlan, error) {
		pod, p := l.last.Plan.App(a.ID)
		var target *cgroup.Target
		if i := slices.IndexFunc(l.last.Targets, func(t cgroup.Target) bool { return t.Container == a.ID }); i >= 0 {
			target = &l.last.Targets[i]
		}
		return pod, l.decideStart(a, p, target, l.last.Began)
	}) || again
}

// decideCreate returns the reply to a, the refusal, or requests.ErrUndecided. p is the placement
// of the container, or nil if the plan does not contain it.
func (l *Loop) decideCreate(a *requests.Create, pod *pools.PodPlan, p *pools.Placement, now time.Time) (nri.Reply, error) {
	if !l.last.Planned {
		return l.decideEarly(a, pod, p, l.now())
	}
	late := a.IsLate(now)
	refuse := l.settings.Config.OnRefusal != config.RefusalShared
	switch {
	case p == nil:
		return nri.Reply{}, errUnknownPod
	case p.Pool == pools.Other:
		return replyUnmanaged(a, l.inventory.Objects().Container(a.Container.ID)), nil
	case p.Refused != nil && refuse:
		l.refusalLog.NoteUncreated(pod, p)
		return nri.Reply{}, fmt.Errorf("%s: %s", p.Refused.Code, p.Refused.Why)
	case p.Reason.Code == pools.CodeWaiting && !late:
		return nri.Reply{}, requests.ErrUndecided
	case p.Reason.Code == pools.CodeWaiting && refuse:
		return nri.Reply{}, errors.New("the kubelet does not report the NUMA nodes of its devices and memory, which its topology policy demands; the daemon queries it again when the kubelet retries" + a.Shortened())
	}
	cpus, occupied, by := l.obtainable(p)
	switch {
	case cpus.IsEmpty() && !late:
		return nri.Reply{}, requests.ErrUndecided
	case cpus.IsEmpty() && (refuse || p.Pool != pools.Guaranteed):
		return nri.Reply{}, fmt.Errorf("CPUs %s are not free yet: %s still uses them; the kubelet retries%s", occupied, by, a.Shortened())
	case cpus.IsEmpty():
		q, moment := *p, l.moment(now) // a later pass allocates its exclusive CPUs, when they are free
		q.Pool, q.Exclusive, q.Mixed, q.CPUs = pools.Shared, false, cpuset.Set{}, l.last.Plan.Shared.Difference(moment.Withheld())
		if cpus, occupied, by = l.obtainable(&q); cpus.IsEmpty() {
			return nri.Reply{}, fmt.Errorf("all CPUs of the shared pool are taken: %s still has %s", by, occupied)
		}
	}
	return l.reply(a, pod, p, cpus), nil
}

// replyUnmanaged returns the reply for a container that another manager places. It contains
// no CPUs for the container. The variable with shared CPUs stays if another plugin has given
// the container its CPUs: that plugin can have set it. CRI-O sets its own variable after the
// reply (cri-o 1.34.0, server/container_create.go: NRI is called before hooks.PreCreate), and
// the kubelet sets none. So the pod or its image has set any other.
func replyUnmanaged(a *requests.Create, e *inventory.Container) nri.Reply {
	e.Answer(cpuset.Set{}, cpuset.Set{})
	var to nri.Adjustment
	if !e.IsPlacedElsewhere() {
		to.Env = a.WithoutForeign(make(map[string]string))
	}
	return nri.Reply{Adjustment: to}
}

// obtainable returns the CPUs that a container can use now: its planned CPUs without the
// CPUs that another cgroup occupies and must not share, by the kernel's cpusets. An exclusive
// container gets all of its exclusive CPUs or none. by is a cgroup on the occupied CPUs.
//
// Records do not count: records of containers change with the reply, and records of pause
// containers and units change soon after their cpusets. Host slices do not block a
// container (ADR 0011).
func (l *Loop) obtainable(p *pools.Placement) (cpus, occupied cpuset.Set, by cgroup.Path) {
	all := p.Runs()
	note := func(held cpuset.Set, at cgroup.Path) {
		if held = held.Intersection(all); !held.IsEmpty() {
			occupied, by = occupied.Union(held), at
		}
	}
	for path, held := range l.cache.Held(l.last.Targets, p, l.inventory.Objects().CgroupOf(p)) {
		note(held, path)
	}
	for path, held := range l.units.Leaving() {
		note(held, path)
	}
	note(l.partitions.Lost(), "the kernel") // the plan of the last pass did not contain them yet
	note(l.partitions.Parked(), cgroup.Parking)
	if p.Exclusive && occupied.Overlaps(p.CPUs) {
		return cpuset.Set{}, occupied, by
	}
	return all.Difference(occupied), occupied, by
}

// reply returns the reply with the container's values, and marks them as recorded. The journal
// notes the values that the container would have without the daemon.
func (l *Loop) reply(a *requests.Create, pod *pools.PodPlan, p *pools.Placement, cpus cpuset.Set) nri.Reply {
	given := *p
	if given.Exclusive = p.Exclusive && p.CPUs.IsSubsetOf(cpus); given.Exclusive {
		given.Mixed = cpus.Difference(p.CPUs)
	} else {
		given.CPUs, given.Mixed = cpus, cpuset.Set{}
	}
	e := l.inventory.Objects().Container(a.Container.ID)
	l.journal.Originals.NoteCreated(e.Path, e.Container.ID, e.Container.Requested, p, l.planner.Formula.Weight(e.Container.Requested.Shares))
	e.Answer(cpus, p.Mems)
	env := a.WithoutForeign(l.publisher.Files.Entry(pod, &given, l.last.Plan.Shared).Environment())
	to := nri.Adjustment{CPUs: cpus, Mems: p.Mems, Shares: p.Shares, Unlimited: p.Unlimited, Env: env}
	if p.Limit != 0 {
		to.Quota, to.Period = cgroup.LimitQuota(p.Limit)
	}
	return nri.Reply{Adjustment: to}
}

// decideStart returns nil, the refusal, or requests.ErrUndecided. A container on its planned CPUs
// may start. The daemon refuses an exclusive container on other CPUs, unless onRefusal allows it, and any container on exclusive CPUs of another owner. p and t are the
// placement and target of the container, or nil: a container from a time without NRI is
// being fetched.
func (l *Loop) decideStart(a *requests.Start, p *pools.Placement, t *cgroup.Target, now time.Time) error {
	if !l.last.Planned {
		return l.decideEarlyStart(a, l.now())
	}
	late := a.IsLate(now)
	if p != nil && p.Pool == pools.Other {
		return nil
	}
	if t == nil {
		if late || l.inventory.Objects().Container(a.ID).IsHosted() {
			return nil
		}
		return requests.ErrUndecided
	}
	c := l.cache.Current(t.Path)
	switch {
	case c.Exists && !late && l.partitions.Pending(*t):
		return requests.ErrUndecided
	case c.Exists && l.partitions.Pending(*t):
		l.log.Warn("container starts before its cpuset partition exists: the write takes longer than the runtime waits", "cgroup", t.Path, "wait", a.Granted())
	}
	switch {
	case !c.Exists || c.Effective.IsSubsetOf(t.CPUs):
		return nil
	case !late:
		return requests.ErrUndecided
	case t.Exclusive && l.settings.Config.OnRefusal != config.RefusalShared:
		return fmt.Errorf("container runs on CPUs %s instead of its exclusive CPUs %s; the kubelet retries%s", c.Effective, t.CPUs, a.Shortened())
	}
	others := l.last.Owned
	if t.Exclusive {
		others = others.Difference(t.CPUs)
	}
	if on := c.Effective.Intersection(others); !on.IsEmpty() {
		return fmt.Errorf("it is on CPUs %s, which are exclusive to other owners; the kubelet retries%s", on, a.Shortened())
	}
	return nil
}
