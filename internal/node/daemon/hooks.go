package daemon

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
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
// (pendingupdates.go). Then the loop replies with the planned CPUs, if the kernel shows that
// no other container is on them. From then on the container counts as created and not
// started, with these CPUs recorded. The daemon sends no request about it until the runtime
// shows that the container exists (unconfirmed).
//
// The runtime asks again when the cgroup exists and its first process waits in it
// (startRequest). The loop first writes the changes since its reply to the cgroup's files.
//
// A reply that depends on another move or on the kubelet waits for hookPatience at most. The
// loop does not wait with it.

// hookTimeout is how long the runtime may be kept waiting for an answer. It gives up
// after 2 s (NRI's plugin_request_timeout), and goes on without.
const hookTimeout = time.Second

// createRequest asks where a container is to be that the runtime is about to create.
type createRequest struct {
	pod       cri.Pod
	container cri.Container
	canceled  <-chan struct{}     // closed when nobody waits any more
	answer    chan<- createAnswer // has room for one
	since     time.Time
	updates   []nri.Update // promised so far
}

type createAnswer struct {
	reply nri.Reply
	err   error
}

// startRequest asks whether a container's first process may go on.
type startRequest struct {
	id       string
	canceled <-chan struct{}
	answer   chan<- error
	since    time.Time
	noted    bool // see noteStarts
}

func (*createRequest) scope(*Loop) scope { return scopeAnswer }

func (a *createRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now()) // the runtime has done with the one before
	l.fetchEarlier(l.inventory.Expect(a.pod, a.container, l.settings.Pools.Kubelet))
	l.creating = append(l.creating, a)
}

func (*startRequest) scope(*Loop) scope { return scopeOne }

func (a *startRequest) apply(l *Loop) {
	l.starting = append(l.starting, a)
	if e := l.inventory.Container(a.id); e == nil || e.IsUnconfirmed() {
		l.fetchContainer(a.id)
	}
}

// noteStarts notes of the containers that are about to start that their cgroups are
// made and may be written. Of one that was not known that is when the runtime has told
// of it.
func (l *Loop) noteStarts() {
	for _, a := range l.starting {
		if e := l.inventory.Container(a.id); e != nil && !a.noted {
			a.noted = true
			e.MarkStarting()
			l.cache.Invalidate(e.Path)
		}
	}
}

// answerHooks answers those whom the last pass has settled, or whose time is over.
// It says whether another pass is needed.
func (l *Loop) answerHooks(now time.Time) (again bool) {
	l.creating = slices.DeleteFunc(l.creating, func(a *createRequest) bool {
		if isClosed(a.canceled) {
			l.cancelCreate(a)
			l.fetchContainer(a.container.ID) // the runtime may have gone on without an answer
			again = true
			return true
		}
		pod, p := findPlacement(&l.status.plan, a.container.ID)
		c, done := l.decideCreate(a, pod, p, now)
		if !done {
			return false
		}
		if c.err != nil {
			l.dropCreate(a)
			again = true
		} else {
			l.noteReply(a, now)
		}
		a.answer <- c
		return true
	})
	l.starting = slices.DeleteFunc(l.starting, func(a *startRequest) bool {
		_, p := findPlacement(&l.status.plan, a.id)
		done, err := l.decideStart(a, p, targetOf(l.status.targets, a.id), now)
		if done = done || isClosed(a.canceled); done {
			a.answer <- err
		}
		return done
	})
	return again
}

func isClosed(asker <-chan struct{}) bool {
	select {
	case <-asker:
		return true
	default:
		return false
	}
}

// nextHook calls earlier with the times at which somebody's patience ends.
func (l *Loop) nextHook(earlier func(time.Time)) {
	for _, a := range l.creating {
		earlier(a.since.Add(hookTimeout))
	}
	for _, a := range l.starting {
		earlier(a.since.Add(hookTimeout))
	}
}

// dropCreate forgets a container that is not going to be created.
func (l *Loop) dropCreate(a *createRequest) {
	l.inventory.CancelCreate(a.container.ID)
	l.dropUpdates(a.updates)
}

// cancelCreate is takeBack where the runtime may make the container all the same. Nothing but
// its question has told that another plugin places it.
func (l *Loop) cancelCreate(a *createRequest) {
	l.inventory.AbandonCreate(a.container.ID)
	l.dropUpdates(a.updates)
}

// decideCreate is the answer, if there is one yet, to who is planned as p; nil if it is not
// planned.
func (l *Loop) decideCreate(a *createRequest, pod *pools.PodPlan, p *pools.Placement, now time.Time) (createAnswer, bool) {
	late := now.Sub(a.since) >= hookTimeout
	refuse := l.settings.Config.OnRefusal != config.RefusalShared
	switch {
	case p == nil:
		return createAnswer{err: errors.New("its pod is being removed, or the daemon cannot tell what it is")}, true
	case p.Pool == pools.Other:
		return createAnswer{reply: l.replyUnmanaged(a)}, true
	case p.Refused != nil && refuse:
		l.refuse(pod, p, now)
		return createAnswer{err: fmt.Errorf("%s: %s", p.Refused.Code, p.Refused.Why)}, true
	case p.Reason.Code == pools.CodeWaiting && !late:
		return createAnswer{}, false
	case p.Reason.Code == pools.CodeWaiting && refuse:
		return createAnswer{err: errors.New("the kubelet does not tell the NUMA nodes of its devices and memory, which its topology policy demands; it is asked again when the kubelet tries again")}, true
	}
	cpus, taken, by := l.obtainable(p)
	switch {
	case cpus.IsEmpty() && !late:
		return createAnswer{}, false
	case cpus.IsEmpty() && (refuse || !p.Exclusive):
		return createAnswer{err: fmt.Errorf("CPUs %s are not free yet: %s still has them; it gets them when the kubelet tries again", taken, by)}, true
	case cpus.IsEmpty():
		q := *p // it gets its own when they are free
		q.Exclusive, q.Mixed, q.CPUs = false, cpuset.Set{}, l.status.plan.Shared.Difference(l.leavingCPUs())
		if cpus, taken, by = l.obtainable(&q); cpus.IsEmpty() {
			return createAnswer{err: fmt.Errorf("all CPUs of the shared pool are taken: %s still has %s", by, taken)}, true
		}
	}
	l.noteCreated(l.inventory.Container(a.container.ID), p)
	return createAnswer{reply: l.reply(a, pod, p, cpus)}, true
}

func findPlacement(plan *pools.Plan, id string) (*pools.PodPlan, *pools.Placement) {
	for i := range plan.Pods {
		if c := placementIn(&plan.Pods[i], id); c != nil {
			return &plan.Pods[i], c
		}
	}
	return nil, nil
}

func placementIn(pod *pools.PodPlan, id string) *pools.Placement {
	for i := range pod.Containers {
		if c := &pod.Containers[i]; c.ID == id && c.Kind == pools.App {
			return c
		}
	}
	return nil
}

// replyUnmanaged is the answer for a container that another manager places: none, and it is made
// as that has asked.
func (l *Loop) replyUnmanaged(a *createRequest) nri.Reply {
	l.inventory.Container(a.container.ID).Answer(cpuset.Set{}, cpuset.Set{})
	return nri.Reply{Updates: a.updates}
}

// obtainable are the CPUs that a container can have at once: as planned, but for those
// that somebody still runs on, by the kernel's word, who must not share them. Records
// do not count: those of containers change with the reply, and what else has them
// (pause containers, units) has left by the kernel's word, and is sealed in a moment.
// Slices of the host keep nobody away (ADR 0011). An owner gets all of its own CPUs or
// none, and what there is of those that it shares.
func (l *Loop) obtainable(p *pools.Placement) (cpus, taken cpuset.Set, by cgroup.Path) {
	all := p.Runs()
	note := func(held cpuset.Set, at cgroup.Path) {
		if held = held.Intersection(all); !held.IsEmpty() {
			taken, by = taken.Union(held), at
		}
	}
	for i := range l.status.targets {
		t := &l.status.targets[i]
		if t.Container == p.ID || t.CPUs.IsEmpty() || t.Around || !t.Exclusive && !p.Exclusive {
			continue // of slices of pods only weight and quota are ours
		}
		c := l.cache.Current(t.Path)
		if !c.Exists {
			continue
		}
		held := c.Effective.Union(c.CPUs)
		if p.Exclusive {
			note(held.Intersection(p.CPUs), t.Path)
		}
		if t.Exclusive {
			note(held.Difference(t.Mixed), t.Path)
		}
	}
	for path, held := range l.leavingCgroups() {
		note(held, path)
	}
	note(l.isolation.leaked, "the kernel") // found by the last pass, which was planned before
	note(l.isolation.parking.cpus, cgroup.Parking)
	if p.Exclusive && taken.Overlaps(p.CPUs) {
		return cpuset.Set{}, taken, by
	}
	return all.Difference(taken), taken, by
}

// noteCreated records what the container would have been without us, for restore. The
// answer does not wait for the disk.
func (l *Loop) noteCreated(e *inventory.Container, p *pools.Placement) {
	note := func(file, value string) {
		l.journal.NoteAsync(undo.Original{Path: e.Path, File: file, Container: e.Container.ID, Value: value})
	}
	if e.Path == "" {
		return
	}
	asked := e.Container.Requested
	note(cgroup.FileCPUs, asked.CPUs)
	if !p.Mems.IsEmpty() {
		note(cgroup.FileMems, asked.Mems)
	}
	if w := desired.ContainerWeight(l.formula, asked.Shares); p.Shares != 0 && w != 0 {
		note(cgroup.FileWeight, fmt.Sprint(w))
	}
	switch {
	case p.Unlimited && asked.Quota > 0:
		note(cgroup.FileMax, undo.MaxValue(asked.Quota, asked.Period))
	case p.Limit != 0:
		note(cgroup.FileMax, undo.Unlimited)
	}
}

// reply makes the answer, and the container one that has it on record.
func (l *Loop) reply(a *createRequest, pod *pools.PodPlan, p *pools.Placement, cpus cpuset.Set) nri.Reply {
	given := *p
	if given.Exclusive = p.Exclusive && p.CPUs.IsSubsetOf(cpus); given.Exclusive {
		given.Mixed = cpus.Difference(p.CPUs)
	} else {
		given.CPUs, given.Mixed = cpus, cpuset.Set{}
	}
	l.inventory.Container(a.container.ID).Answer(cpus, p.Mems)
	to := nri.Adjustment{CPUs: cpus, Mems: p.Mems, Shares: p.Shares, Unlimited: p.Unlimited, Env: l.entryOf(pod, &given).Environment()}
	if p.Limit != 0 {
		to.Quota, to.Period = desired.LimitOf(p)
	}
	return nri.Reply{Adjustment: to, Updates: a.updates}
}

// decideStart is the answer, if there is one yet: nothing is in the way of a
// container that has its CPUs. One that should have CPUs of its own and runs elsewhere,
// unless it was let, or that is on those of somebody else, must not begin. Who is not
// known, from a time without NRI, is being asked for. p and t are what is planned for it,
// nil if nothing is.
func (l *Loop) decideStart(a *startRequest, p *pools.Placement, t *cgroup.Target, now time.Time) (done bool, refusal error) {
	late := now.Sub(a.since) >= hookTimeout
	if p != nil && p.Pool == pools.Other {
		return true, nil
	}
	if t == nil {
		return late, nil
	}
	c := l.cache.Current(t.Path)
	switch {
	case c.Exists && !late && l.partitionPending(*t):
		return false, nil
	case c.Exists && l.partitionPending(*t):
		l.log.Warn("a container begins before the kernel keeps others off its CPUs: that takes longer than the runtime waits", "cgroup", t.Path)
	}
	switch {
	case !c.Exists || c.Effective.IsSubsetOf(t.CPUs):
		return true, nil
	case !late:
		return false, nil
	case t.Exclusive && l.settings.Config.OnRefusal != config.RefusalShared:
		return true, fmt.Errorf("it is on CPUs %s, not on its own, %s; the kubelet tries again", c.Effective, t.CPUs)
	}
	others := desired.OwnedBy(l.status.plan)
	if t.Exclusive {
		others = others.Difference(t.CPUs)
	}
	if on := c.Effective.Intersection(others); !on.IsEmpty() {
		return true, fmt.Errorf("it is on CPUs %s, which others have for themselves; the kubelet tries again", on)
	}
	return true, nil
}

func targetOf(targets []cgroup.Target, container string) *cgroup.Target {
	for i := range targets {
		if targets[i].Container == container {
			return &targets[i]
		}
	}
	return nil
}

// expireHints lets containers continue without hints whose creation has waited for hookPatience.
func (l *Loop) expireHints(now time.Time) {
	for _, a := range l.creating {
		e := l.inventory.Container(a.container.ID)
		if e == nil || now.Sub(a.since) < hookTimeout {
			continue
		}
		l.hints.GoWithout(l.inventory.KeyOf(e))
	}
}
