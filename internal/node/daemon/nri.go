package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/waits"
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

// nriChanged reports the state of the NRI connection.
type nriChanged struct {
	state nri.State
	err   error
}

func (e nriChanged) apply(l *Loop) {
	if !l.schedule.listings.HasListed() {
		l.list() // NRI has answered
	}
	l.publisher.States.NRI(e.state, e.err)
	if l.inventory.SetNRI(e.state == nri.Connected); !l.inventory.Objects().HasNRI() {
		for c := range l.inventory.Objects().Containers() {
			if c.Container.State == cri.Created {
				l.cache.Invalidate(c.Path) // the runtime no longer asks before it starts
			}
		}
		l.settleUpdates(true, l.now()) // no further request shows that they are made
	}
}

// await returns the reply to a question that was posted to the event loop.
func await[R any](ctx context.Context, reply <-chan waits.Reply[R]) (R, error) {
	select {
	case r := <-reply:
		return r.Value, r.Err
	case <-ctx.Done():
		var none R
		return none, errLate
	}
}

func (h hooks) Synchronize(ctx context.Context, pods []cri.Pod, containers []cri.Container) error {
	q := waits.Ask[struct{}](ctx.Done())
	h.post(synchronized{pods, containers, q})
	_, err := await(ctx, q.Reply())
	return err
}

func (h hooks) Create(ctx context.Context, p cri.Pod, c cri.Container) (nri.Reply, error) {
	q := requests.NewCreate(p, c, h.now(), ctx.Done())
	h.post(createRequest{q})
	reply, err := await(ctx, q.Reply())
	if err != nil {
		return nri.Reply{}, fmt.Errorf("cpupoold: %s/%s, container %s: %w", p.Namespace, p.Name, c.Name, err)
	}
	return reply, nil
}

func (h hooks) Start(ctx context.Context, id string) error {
	q := requests.NewStart(id, h.now(), ctx.Done())
	h.post(startRequest{q})
	if _, err := await(ctx, q.Reply()); err != nil {
		return fmt.Errorf("cpupoold: start of container %s: %w", id, err)
	}
	return nil
}

func (h hooks) Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error) {
	q := waits.Ask[cri.Resources](ctx.Done())
	h.post(updateRequest{id, asked, q})
	return await(ctx, q.Reply())
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
	waits.Question[struct{}]
}

// apply fetches all listed pods and containers, because NRI is the only source of resizes and
// was disconnected. The first listing makes that unnecessary if it follows. If the first
// listing is in progress, the daemon fetches them after its first pass: a busy runtime must not
// answer everything twice before. Apply drops containers that only NRI has reported and that are not in the
// list: containerd creates no containers at this moment. If another runtime does, its event
// stream reports the container again.
func (s synchronized) apply(l *Loop) {
	s.Answer(struct{}{}, nil)
	s.useClaims(l)
	switch {
	case l.schedule.listings.HasListed():
		s.fetch(l)
	case l.schedule.listings.IsBusy():
		l.schedule.afterPass = func() { s.fetch(l) }
	default:
		l.schedule.afterPass = func() { s.noteClaims(l) }
	}
	l.list()
}

// useClaims records the claims of containers that were created while NRI was disconnected.
func (s *synchronized) useClaims(l *Loop) {
	uids := make(map[string]string, len(s.pods))
	for _, p := range s.pods {
		uids[p.ID] = p.UID
	}
	for _, c := range s.containers {
		if c.State != cri.Exited {
			_ = l.useClaims(c.Claims, uids[c.PodID], c.Name) // a problem shows the error
		}
	}
}

// noteClaims records the references to claims, which only NRI reports.
func (s *synchronized) noteClaims(l *Loop) {
	for _, c := range s.containers {
		l.inventory.NoteClaimRefs(c.ID, c.Claims)
	}
}

// fetch fetches all listed pods and containers, and drops containers that are not in the list.
func (s *synchronized) fetch(l *Loop) {
	s.noteClaims(l)
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

func (e podResized) apply(l *Loop) { l.inventory.Objects().Pod(e.id).SetTotal(e.total) }

// containerHint reports a change of a container.
type containerHint struct{ id string }

func (containerHint) scope(*Loop) scope { return scopeAnswer }

func (e containerHint) apply(l *Loop) {
	if l.inventory.Objects().Container(e.id) != nil {
		l.fetchContainer(e.id)
	}
}

// podHint reports a change of a pod.
type podHint struct{ id string }

func (podHint) scope(*Loop) scope { return scopeAnswer }

func (e podHint) apply(l *Loop) {
	if l.inventory.Objects().Pod(e.id) != nil {
		l.fetchPod(e.id)
	}
}

// # Replies before the first pass
//
// A daemon that has placed containers of this boot before connects to NRI at once. A busy
// runtime can need a minute for the first listing, and a container that it creates before that
// would run on all CPUs. The inventory is incomplete until then. So an early reply gives only
// the CPUs of a pool without the exclusive CPUs in the journal. A reply waits until the journal
// is on disk (package requests), and other changes of owners' CPUs are saved at the time of their
// writes. A container that needs exclusive CPUs waits for the first pass, as long as the budget
// for waits allows it. Then the daemon refuses it, or, with onRefusal: shared, places it in the
// shared pool. The first pass checks all early replies.

var errEarly = errors.New("the daemon has just started and does not know yet which CPUs are free; the kubelet retries")

// answerEarly answers requests before the first pass.
func (l *Loop) answerEarly() {
	l.requests.MarkStarting()
	for l.answerHooks(l.now()) {
	}
	l.requests.Next(l.schedule.retry.SetEarlier)
}

// decideEarly returns the reply to a before the first pass, the refusal, or
// requests.ErrUndecided. pod and p are the placement of the container in the early plan, or nil.
func (l *Loop) decideEarly(a *requests.Create, pod *pools.PodPlan, p *pools.Placement, now time.Time) (nri.Reply, error) {
	switch {
	case p == nil:
		return nri.Reply{}, errUnknownPod
	case p.Pool == pools.Other, l.CPUManager != nil: // the request has the CPUs of the kubelet
		return replyUnmanaged(a, l.inventory.Objects().Container(a.Container.ID)), nil
	}
	whole := p.Pool == pools.Guaranteed || p.Refused != nil || p.Reason.Code == pools.CodeWaiting
	weighs := p.Shares != 0 && !l.planner.Formula.IsAnswered() // its original needs the formula
	switch {
	case !whole && !weighs && !p.CPUs.IsEmpty():
	case !a.IsLate(now):
		return nri.Reply{}, requests.ErrUndecided
	case p.CPUs.IsEmpty(), whole && l.settings.Config.OnRefusal != config.RefusalShared:
		l.log.Warn("container refused before the first pass", "pod", a.Pod.Namespace+"/"+a.Pod.Name, "container", a.Container.Name)
		return nri.Reply{}, errEarly
	}
	shared := *p
	if shared.Exclusive, shared.Mixed = false, (cpuset.Set{}); whole {
		shared.Pool = pools.Shared
	}
	return l.reply(a, pod, &shared, shared.CPUs), nil
}

// decideEarlyStart returns nil before the first pass, the refusal, or requests.ErrUndecided. A
// container with recorded CPUs has them from a reply or from the kubelet. Any other container was
// created while no daemon ran. It must not start on exclusive CPUs.
func (l *Loop) decideEarlyStart(a *requests.Start, now time.Time) error {
	e := l.inventory.Objects().Container(a.ID)
	switch {
	case e != nil && !e.Recorded.IsEmpty():
		return nil
	case !a.IsLate(now):
		return requests.ErrUndecided
	case e == nil || l.CPUManager != nil:
		return nil
	case e.MayBeExclusive() && l.settings.Config.OnRefusal != config.RefusalShared:
		return errEarly
	}
	if e.Path == "" {
		return nil // the runtime has not reported its cgroup
	}
	st, err := l.cache.State(e.Path)
	if owned := (&pools.Plan{Assignments: l.journal.Facts().Assignments}).Owned(); err == nil && st.Effective.Overlaps(owned) {
		return errEarly
	}
	return nil
}
