package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// errLate is the reply when the event loop has not answered in time. The runtime then
// creates no container, rather than one outside its pool, and the kubelet tries again.
var errLate = errors.New("cpupoold did not decide in time; the kubelet retries, and the daemon's log contains the reason")

// hooks implements nri.Handler. Its methods run in goroutines of the connection. They only
// post events to the event loop and wait for its answer.
type hooks struct {
	post func(event)
	now  func() time.Time
}

// watchNRI keeps the connection to the runtime's NRI until ctx ends. It connects after
// openNRI: at once if replies before the first pass are safe (see below), else after the
// first pass. Until then, runtime events lead to the same decisions, but later.
func (l *Loop) watchNRI(ctx context.Context) {
	if l.NRISocket == "" {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-l.nriOpen:
	}
	_ = nri.Run(ctx, nri.Options{ // ends only with ctx
		Socket:  l.NRISocket,
		Keep:    l.Annotations.Reads,
		Handler: hooks{l.box.Post, l.now},
		Runtime: l.Runtime,
		State:   func(s nri.State, err error) { l.box.Post(nriChanged{s, err}) },
	})
}

// nriChanged reports the state of the NRI connection.
type nriChanged struct {
	state nri.State
	err   error
}

func (e nriChanged) apply(l *Loop) {
	if !l.status.listed {
		l.list() // NRI has answered
	}
	before := l.status.nri
	l.status.nriErr = e.err
	switch l.status.nri = nriState(e.state, before); {
	case l.status.nri == before:
	case e.state == nri.Connected:
		l.log.Info("NRI is connected: containers are placed before they exist")
	case l.status.nri == telemetry.SourceLost:
		l.log.Error("NRI is lost: containers are placed when the runtime reports them, which is after their first instruction", "error", e.err)
	default:
		l.log.Info("the runtime does not offer NRI; containers are placed when the runtime reports them", "error", e.err)
	}
	if l.inventory.SetNRI(e.state == nri.Connected); !l.inventory.HasNRI() {
		for c := range l.inventory.Containers() {
			if c.Container.State == cri.Created {
				l.cache.Invalidate(c.Path) // the runtime no longer asks before it starts
			}
		}
		l.settleUpdates(true, l.now()) // no further request shows that they are made
	}
}

// nriState returns the state of NRI as a source: lost only after it was connected once.
func nriState(s nri.State, before telemetry.SourceState) telemetry.SourceState {
	switch {
	case s == nri.Connected:
		return telemetry.SourceOK
	case s == nri.Lost, before == telemetry.SourceOK, before == telemetry.SourceLost:
		return telemetry.SourceLost
	default:
		return telemetry.SourceAbsent
	}
}

// ask posts a question to the event loop and returns its answer.
func ask[A any](ctx context.Context, h hooks, question func(answer chan<- A) event) (A, error) {
	answer := make(chan A, 1)
	h.post(question(answer))
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		var none A
		return none, errLate
	}
}

func (h hooks) Synchronize(ctx context.Context, pods []cri.Pod, containers []cri.Container) error {
	_, err := ask(ctx, h, func(a chan<- struct{}) event { return synchronized{pods, containers, a} })
	return err
}

func (h hooks) Create(ctx context.Context, p cri.Pod, c cri.Container) (nri.Reply, error) {
	a, err := ask(ctx, h, func(a chan<- createAnswer) event {
		return &createRequest{pod: p, container: c, canceled: ctx.Done(), answer: a, since: h.now()}
	})
	if err == nil {
		err = a.err
	}
	if err != nil {
		return nri.Reply{}, fmt.Errorf("cpupoold: %s/%s, container %s: %w", p.Namespace, p.Name, c.Name, err)
	}
	return a.reply, nil
}

func (h hooks) Start(ctx context.Context, id string) error {
	refusal, err := ask(ctx, h, func(a chan<- error) event {
		return &startRequest{id: id, canceled: ctx.Done(), answer: a, since: h.now()}
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return fmt.Errorf("cpupoold: start of container %s: %w", id, err)
	}
	return nil
}

func (h hooks) Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error) {
	u, err := ask(ctx, h, func(a chan<- updateAnswer) event { return updateRequest{id, asked, ctx.Done(), a} })
	if err == nil {
		err = u.err
	}
	return u.keep, err
}

func (h hooks) RunPod(p cri.Pod) { h.post(podRun{p}) }

func (h hooks) ResizePod(id string, total cri.Resources) { h.post(podResized{id, total}) }

// Stop fetches a container: some runtimes send the event before the container has ended, and
// a running container keeps its CPUs.
func (h hooks) Stop(id string) { h.post(containerHint{id}) }

// StopPod fetches a pod, for the same reason.
func (h hooks) StopPod(id string) { h.post(podHint{id}) }

func (h hooks) Remove(id string) {
	h.post(runtimeEvent{cri.Event{ContainerID: id, Kind: cri.ContainerDeleted, At: h.now()}})
}

func (h hooks) RemovePod(id string) { h.Remove(id) }

// synchronized lists the pods and containers of the runtime at the start of a connection.
type synchronized struct {
	pods       []cri.Pod
	containers []cri.Container
	answer     chan<- struct{}
}

// apply fetches all listed pods and containers, because NRI is the only source of resizes and
// was disconnected. The first listing makes that unnecessary if it follows. If the first
// listing is in progress, the daemon fetches them after its first pass: a busy runtime must not
// answer everything twice before. Apply drops containers that only NRI has reported and that are not in the
// list: containerd creates no containers at this moment. If another runtime does, its event
// stream reports the container again.
func (s synchronized) apply(l *Loop) {
	s.answer <- struct{}{}
	switch {
	case l.status.listed:
		s.fetch(l)
	case l.status.listing:
		l.status.synchronized = func() { s.fetch(l) }
	}
	l.list()
}

// fetch fetches all listed pods and containers, and drops containers that are not in the list.
func (s *synchronized) fetch(l *Loop) {
	there := make(map[string]bool, len(s.pods)+len(s.containers))
	for _, p := range s.pods {
		there[p.ID] = true
		l.fetchPod(p.ID)
	}
	for _, c := range s.containers {
		there[c.ID] = true
		l.fetchContainer(c.ID)
	}
	l.inventory.DropMissing(there)
}

// podRun reports a new pod.
type podRun struct{ pod cri.Pod }

func (e podRun) apply(l *Loop) { l.inventory.ExpectPod(e.pod) }

// podResized reports the new total of a pod.
type podResized struct {
	id    string
	total cri.Resources
}

func (e podResized) apply(l *Loop) { l.inventory.SetTotal(e.id, e.total) }

// containerHint reports a change of a container.
type containerHint struct{ id string }

func (containerHint) scope(*Loop) scope { return scopeOne }

func (e containerHint) apply(l *Loop) {
	if l.inventory.Container(e.id) != nil {
		l.fetchContainer(e.id)
	}
}

// podHint reports a change of a pod.
type podHint struct{ id string }

func (podHint) scope(*Loop) scope { return scopeOne }

func (e podHint) apply(l *Loop) {
	if l.inventory.Pod(e.id) != nil {
		l.fetchPod(e.id)
	}
}

// # Replies before the first pass
//
// A daemon that has placed containers of this boot before connects to NRI at once. A busy
// runtime can need a minute for the first listing, and a container that it creates before that
// would run on all CPUs. The inventory is incomplete until then. So an early reply gives only
// the CPUs of a pool without the exclusive CPUs in the journal. A reply waits until the journal
// is on disk (see send), and other changes of owners' CPUs are saved at the time of their
// writes. A container that needs exclusive CPUs waits for the first pass, as long as the budget
// for waits allows it. Then the daemon refuses it, or, with onRefusal: shared, places it in the
// shared pool. The first pass checks all early replies.

var errEarly = errors.New("the daemon has just started and does not know yet which CPUs are free; the kubelet retries")

// answerEarly answers requests before the first pass.
func (l *Loop) answerEarly() {
	l.noteStarts()
	for l.answerHooks(l.now()) {
	}
	l.nextHook(func(at time.Time) {
		if due := l.timers.retry.due; !at.IsZero() && (due.IsZero() || at.Before(due)) {
			l.timers.retry.set(at)
		}
	})
}

// earlyPlan returns the plan for replies before the first pass.
func (l *Loop) earlyPlan(now time.Time) pools.Plan {
	pods := l.inventory.Input(now)
	l.others.Mark(l.inventory, pods, &l.settings, l.Cgroups.Read)
	in := desired.Input{Settings: l.settings, Inventory: l.inventory, Journal: l.journal, Pods: pods, Previous: l.journal.Assignments(), Namespaces: l.permission.Rights(), Build: pools.Build}
	return in.Early()
}

// decideEarly returns the reply to a before the first pass, and whether it is decided. pod and
// p are the placement of the container in the early plan, or nil.
func (l *Loop) decideEarly(a *createRequest, pod *pools.PodPlan, p *pools.Placement, now time.Time) (createAnswer, bool) {
	switch {
	case p == nil:
		return createAnswer{err: errUnknownPod}, true
	case p.Pool == pools.Other, l.CPUManager != nil: // the request has the CPUs of the kubelet
		return createAnswer{reply: l.replyUnmanaged(a)}, true
	}
	whole := p.Pool == pools.Guaranteed || p.Refused != nil || p.Reason.Code == pools.CodeWaiting
	weighs := p.Shares != 0 && !l.formula.IsAnswered() // its original needs the formula
	switch {
	case !whole && !weighs && !p.CPUs.IsEmpty():
	case !a.wait.IsOver(now):
		return createAnswer{}, false
	case p.CPUs.IsEmpty(), whole && l.settings.Config.OnRefusal != config.RefusalShared:
		l.log.Warn("container refused before the first pass", "pod", a.pod.Namespace+"/"+a.pod.Name, "container", a.container.Name)
		return createAnswer{err: errEarly}, true
	}
	shared := *p
	if shared.Exclusive, shared.Mixed = false, (cpuset.Set{}); whole {
		shared.Pool = pools.Shared
	}
	l.noteCreated(l.inventory.Container(a.container.ID), &shared)
	return createAnswer{reply: l.reply(a, pod, &shared, shared.CPUs)}, true
}

// decideEarlyStart reports whether the reply to a is decided before the first pass, and the
// refusal. A container with recorded CPUs has them from a reply or from the kubelet. Any other
// container was created while no daemon ran. It must not start on exclusive CPUs.
func (l *Loop) decideEarlyStart(a *startRequest, now time.Time) (done bool, refusal error) {
	e := l.inventory.Container(a.id)
	switch {
	case e != nil && !e.Recorded.IsEmpty():
		return true, nil
	case !a.wait.IsOver(now):
		return false, nil
	case e == nil || l.CPUManager != nil:
		return true, nil
	case l.inventory.MayBeExclusive(e) && l.settings.Config.OnRefusal != config.RefusalShared:
		return true, errEarly
	}
	if e.Path == "" {
		return true, nil // the runtime has not reported its cgroup
	}
	st, err := l.Cgroups.Read(e.Path)
	if owned := desired.OwnedBy(pools.Plan{Assignments: l.journal.Assignments()}); err == nil && st.Effective.Overlaps(owned) {
		return true, errEarly
	}
	return true, nil
}
