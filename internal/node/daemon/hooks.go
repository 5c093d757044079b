package daemon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// # The life of a container with NRI
//
// The runtime asks about a container before it creates it (createRequest). The loop adds
// the container to the inventory: it is planned like any other, but no cgroup and no record
// of it are read. The pass that follows writes the files of the containers that release
// CPUs. The updates of their records go into the reply, and the runtime makes them
// (persist.go). Then the loop replies with the planned CPUs, if the kernel shows that
// no other container is on them. From then on the container counts as created and not
// started, with these CPUs recorded. The daemon sends no request about it until the runtime
// shows that the container exists (unconfirmed).
//
// The runtime asks again when the cgroup exists and its first process waits in it
// (startRequest). The loop first writes the changes since its reply to the cgroup's files.
//
// A reply that depends on another move or on the kubelet waits for at most waits.Timeout, and
// for less if earlier waits have used the budget. The loop continues while the reply waits.

var errUnknownPod = errors.New("pod is unknown or being removed")

// createRequest asks for the CPUs of a container that the runtime is about to create.
type createRequest struct {
	pod       cri.Pod
	container cri.Container
	canceled  <-chan struct{}     // closed when the runtime no longer waits
	answer    chan<- createAnswer // buffered
	since     time.Time
	wait      waits.Wait
	updates   []nri.Update // part of the reply
}

// createAnswer is the reply to a createRequest. With err, the runtime creates no container.
type createAnswer struct {
	reply nri.Reply
	err   error
}

// startRequest asks whether the first process of a container may continue.
type startRequest struct {
	id       string
	canceled <-chan struct{}
	answer   chan<- error
	since    time.Time
	wait     waits.Wait
	noted    bool // noteStarts has seen it
}

func (*createRequest) scope(*Loop) scope { return scopeAnswer }

func (a *createRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now()) // the runtime has finished the creation before this one
	l.fetchEarlier(l.inventory.Expect(a.pod, a.container, l.settings.Pools.Kubelet))
	l.requests.creates = append(l.requests.creates, a)
}

func (*startRequest) scope(*Loop) scope { return scopeOne }

func (a *startRequest) apply(l *Loop) {
	l.requests.starts = append(l.requests.starts, a)
	if e := l.inventory.Container(a.id); e == nil || e.IsUnconfirmed() {
		l.fetchContainer(a.id)
	}
}

// noteStarts records that the cgroups of starting containers exist and may be written. A
// container that is not in the inventory follows when the runtime has reported it.
func (l *Loop) noteStarts() {
	for _, a := range l.requests.starts {
		if e := l.inventory.Container(a.id); e != nil && !a.noted {
			a.noted = true
			l.inventory.MarkStarting(e)
			l.cache.Invalidate(e.Path)
		}
	}
}

// answerHooks answers runtime requests that are decided or timed out. It reports whether
// another pass is needed. A request has timed out if its wait was over when the pass began: only
// then has the pass decided without the kubelet's hints.
func (l *Loop) answerHooks(now time.Time) (again bool) {
	plan := &l.status.plan
	if !l.status.planned && len(l.requests.creates) > 0 {
		p := l.earlyPlan(now)
		plan = &p
	}
	l.requests.creates = slices.DeleteFunc(l.requests.creates, func(a *createRequest) bool {
		if isClosed(a.canceled) {
			l.requests.budget.End(&a.wait, now)
			l.cancelCreate(a)
			l.fetchContainer(a.container.ID) // the runtime may have created it without a reply
			again = true
			return true
		}
		pod, p := findPlacement(plan, a.container.ID)
		c, done := l.decideCreate(a, pod, p, l.status.began)
		if !done {
			again = l.requests.budget.Begin(&a.wait, a.pod.UID, a.since, now) || again
			return false
		}
		l.requests.budget.End(&a.wait, now)
		if c.err != nil {
			l.dropCreate(a)
			a.answer <- c
			again = true
			return true
		}
		l.send(a, c)
		return true
	})
	l.requests.starts = slices.DeleteFunc(l.requests.starts, func(a *startRequest) bool {
		pod, p := findPlacement(&l.status.plan, a.id)
		done, err := l.decideStart(a, p, targetOf(l.status.targets, a.id), l.status.began)
		if done = done || isClosed(a.canceled); done {
			l.requests.budget.End(&a.wait, now)
			a.answer <- err
			return true
		}
		again = l.requests.budget.Begin(&a.wait, startKey(pod), a.since, now) || again
		return false
	})
	return again
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// startKey is the key of waits of start requests. It differs from the key of creations: a pod
// whose creation has waited may need time for its partition.
func startKey(pod *pools.PodPlan) string {
	if pod == nil {
		return "start"
	}
	return "start " + pod.UID
}

// nextHook calls earlier with the ends of the waits of the open requests.
func (l *Loop) nextHook(earlier func(time.Time)) {
	for _, a := range l.requests.creates {
		earlier(a.wait.Until())
	}
	for _, a := range l.requests.starts {
		earlier(a.wait.Until())
	}
}

// dropCreate removes a container that the runtime will not create.
func (l *Loop) dropCreate(a *createRequest) {
	l.inventory.CancelCreate(a.container.ID)
	l.dropUpdates(a.updates)
}

// cancelCreate is dropCreate for a request that the runtime has canceled. The runtime may
// create the container nevertheless, and only the request states that another plugin places it.
func (l *Loop) cancelCreate(a *createRequest) {
	l.inventory.AbandonCreate(a.container.ID)
	l.dropUpdates(a.updates)
}

// decideCreate returns the reply to a, and whether it is decided. p is the placement of the
// container, or nil if the plan does not contain it.
func (l *Loop) decideCreate(a *createRequest, pod *pools.PodPlan, p *pools.Placement, now time.Time) (createAnswer, bool) {
	if !l.status.planned {
		return l.decideEarly(a, pod, p, l.now())
	}
	late := a.wait.IsOver(now)
	refuse := l.settings.Config.OnRefusal != config.RefusalShared
	switch {
	case p == nil:
		return createAnswer{err: errUnknownPod}, true
	case p.Pool == pools.Other:
		return createAnswer{reply: l.replyUnmanaged(a)}, true
	case p.Refused != nil && refuse:
		l.refusalLog.NoteUncreated(pod, p, now)
		return createAnswer{err: fmt.Errorf("%s: %s", p.Refused.Code, p.Refused.Why)}, true
	case p.Reason.Code == pools.CodeWaiting && !late:
		return createAnswer{}, false
	case p.Reason.Code == pools.CodeWaiting && refuse:
		return createAnswer{err: errors.New("the kubelet does not report the NUMA nodes of its devices and memory, which its topology policy demands; the daemon queries it again when the kubelet retries" + a.wait.Shortened())}, true
	}
	cpus, occupied, by := l.obtainable(p)
	switch {
	case cpus.IsEmpty() && !late:
		return createAnswer{}, false
	case cpus.IsEmpty() && (refuse || p.Pool != pools.Guaranteed):
		return createAnswer{err: fmt.Errorf("CPUs %s are not free yet: %s still uses them; the kubelet retries%s", occupied, by, a.wait.Shortened())}, true
	case cpus.IsEmpty():
		q := *p // a later pass allocates its exclusive CPUs, when they are free
		q.Pool, q.Exclusive, q.Mixed, q.CPUs = pools.Shared, false, cpuset.Set{}, l.status.plan.Shared.Difference(l.leavingCPUs())
		if cpus, occupied, by = l.obtainable(&q); cpus.IsEmpty() {
			return createAnswer{err: fmt.Errorf("all CPUs of the shared pool are taken: %s still has %s", by, occupied)}, true
		}
	}
	l.noteCreated(l.inventory.Container(a.container.ID), p)
	return createAnswer{reply: l.reply(a, pod, p, cpus)}, true
}

// findPlacement returns the placement of an application container and its pod, or nil.
func findPlacement(plan *pools.Plan, id string) (*pools.PodPlan, *pools.Placement) {
	for i := range plan.Pods {
		if c := placementIn(&plan.Pods[i], id); c != nil {
			return &plan.Pods[i], c
		}
	}
	return nil, nil
}

// placementIn returns the placement of an application container in pod, or nil.
func placementIn(pod *pools.PodPlan, id string) *pools.Placement {
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.ID == id && c.Kind == pools.App {
			return c
		}
	}
	return nil
}

// replyUnmanaged returns the reply for a container that another manager places. It contains
// no CPUs for the container. The variable with shared CPUs stays if another plugin has given
// the container its CPUs: that plugin can have set it. CRI-O sets its own variable after the
// reply (cri-o 1.34.0, server/container_create.go: NRI is called before hooks.PreCreate), and
// the kubelet sets none. So the pod or its image has set any other.
func (l *Loop) replyUnmanaged(a *createRequest) nri.Reply {
	e := l.inventory.Container(a.container.ID)
	e.Answer(cpuset.Set{}, cpuset.Set{})
	var to nri.Adjustment
	if !e.IsPlacedElsewhere() {
		to.Env = withoutForeign(a, make(map[string]string))
	}
	return nri.Reply{Adjustment: to, Updates: a.updates}
}

// withoutForeign returns the variables of a reply, and an empty OPENSHIFT_SHARED_CPUS if the
// container has one that is not in the reply. In each update CRI-O adds the CPUs in this
// variable to the cpuset, and ignores an empty one. With another runtime, the application
// would take foreign CPUs for its shared CPUs.
func withoutForeign(a *createRequest, env map[string]string) map[string]string {
	if _, ours := env[cri.SharedCPUsVariable]; !ours && a.container.SharedCPUs != "" {
		env[cri.SharedCPUsVariable] = ""
	}
	return env
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
	for path, held := range l.cache.Held(l.status.targets, p, l.inventory.CgroupOf(p)) {
		note(held, path)
	}
	for path, held := range l.units.LeavingCgroups() {
		note(held, path)
	}
	note(l.partitions.Lost(), "the kernel") // the plan of the last pass did not contain them yet
	note(l.partitions.Parked(), cgroup.Parking)
	if p.Exclusive && occupied.Overlaps(p.CPUs) {
		return cpuset.Set{}, occupied, by
	}
	return all.Difference(occupied), occupied, by
}

// noteCreated records the values that the container would have without the daemon.
func (l *Loop) noteCreated(e *inventory.Container, p *pools.Placement) {
	l.journal.NoteCreated(e.Path, e.Container.ID, e.Container.Requested, p, l.formula.Weight(e.Container.Requested.Shares))
}

// reply returns the reply with the container's values, and marks them as recorded.
func (l *Loop) reply(a *createRequest, pod *pools.PodPlan, p *pools.Placement, cpus cpuset.Set) nri.Reply {
	given := *p
	if given.Exclusive = p.Exclusive && p.CPUs.IsSubsetOf(cpus); given.Exclusive {
		given.Mixed = cpus.Difference(p.CPUs)
	} else {
		given.CPUs, given.Mixed = cpus, cpuset.Set{}
	}
	l.inventory.Container(a.container.ID).Answer(cpus, p.Mems)
	env := withoutForeign(a, l.files.Entry(pod, &given, l.status.plan.Shared).Environment())
	to := nri.Adjustment{CPUs: cpus, Mems: p.Mems, Shares: p.Shares, Unlimited: p.Unlimited, Env: env}
	if p.Limit != 0 {
		to.Quota, to.Period = desired.LimitQuota(p)
	}
	return nri.Reply{Adjustment: to, Updates: a.updates}
}

// decideStart reports whether the reply to a is decided, and the refusal. A container on its
// planned CPUs may start. The daemon refuses an exclusive container on other CPUs, unless
// onRefusal allows it, and any container on exclusive CPUs of another owner. p and t are the
// placement and target of the container, or nil: a container from a time without NRI is
// being fetched.
func (l *Loop) decideStart(a *startRequest, p *pools.Placement, t *cgroup.Target, now time.Time) (done bool, refusal error) {
	if !l.status.planned {
		return l.decideEarlyStart(a, l.now())
	}
	late := a.wait.IsOver(now)
	if p != nil && p.Pool == pools.Other {
		return true, nil
	}
	if t == nil {
		return late || l.inventory.IsHosted(a.id), nil
	}
	c := l.cache.Current(t.Path)
	switch {
	case c.Exists && !late && l.partitions.Pending(*t):
		return false, nil
	case c.Exists && l.partitions.Pending(*t):
		l.log.Warn("container starts before its cpuset partition exists: the write takes longer than the runtime waits", "cgroup", t.Path, "wait", a.wait.Until().Sub(a.since))
	}
	switch {
	case !c.Exists || c.Effective.IsSubsetOf(t.CPUs):
		return true, nil
	case !late:
		return false, nil
	case t.Exclusive && l.settings.Config.OnRefusal != config.RefusalShared:
		return true, fmt.Errorf("container runs on CPUs %s instead of its exclusive CPUs %s; the kubelet retries%s", c.Effective, t.CPUs, a.wait.Shortened())
	}
	others := desired.OwnedBy(l.status.plan)
	if t.Exclusive {
		others = others.Difference(t.CPUs)
	}
	if on := c.Effective.Intersection(others); !on.IsEmpty() {
		return true, fmt.Errorf("it is on CPUs %s, which are exclusive to other owners; the kubelet retries%s", on, a.wait.Shortened())
	}
	return true, nil
}

// targetOf returns the target of a container, or nil.
func targetOf(targets []cgroup.Target, container string) *cgroup.Target {
	for i := range targets {
		if targets[i].Container == container {
			return &targets[i]
		}
	}
	return nil
}

// expireHints decides without the kubelet's hints about containers whose creation waits no
// longer.
func (l *Loop) expireHints(now time.Time) {
	for _, a := range l.requests.creates {
		e := l.inventory.Container(a.container.ID)
		if e != nil && a.wait.IsOver(now) {
			l.hints.GoWithout(l.inventory.KeyOf(e))
		}
	}
}
