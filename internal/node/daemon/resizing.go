package daemon

import (
	"cmp"
	"context"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/internal/node/waits"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// askResizes reads the record of each resize that is due.
func (l *Loop) askResizes(now time.Time) {
	for _, q := range l.resizes.Due(now) {
		// In the queue of the updates: an update that follows is not in the record yet.
		l.workers.Updates.Submit(string(q.Path), func(ctx context.Context) event {
			return resizeSeen{q, lookup.FetchContainer(ctx, &l.Host, q.ID, 0)}
		})
	}
}

// resizeSeen is the runtime's record of a container that is being resized.
type resizeSeen struct {
	of resize.Query
	lookup.ContainerStatus
}

func (s resizeSeen) apply(l *Loop) {
	if l.resizes.Seen(s.of, s.ContainerStatus, l.now()) {
		containerFetched{s.ContainerStatus}.apply(l)
	}
}

// resize applies a container's new resources and returns its new placement, nil if it is
// unknown. It refuses a request for more exclusive CPUs than are free, unless onRefusal is
// shared. The container keeps its CPUs then.
func (l *Loop) resize(e *inventory.Container, to cri.Resources) (*pools.Placement, error) {
	before := e.Request().ExclusiveCPUs()
	undo := l.inventory.Resize(e, to)
	more := e.Request().ExclusiveCPUs()
	if !l.last.Planned {
		return nil, nil //nolint:nilnil // see above
	}
	in := l.planner.Input(l.moment(l.now()))
	plan := in.Decide().Plan
	pod, p := plan.App(e.Container.ID)
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	why := cmp.Or(p.Refused, p.Short)
	if why == nil || more <= before || l.settings.Config.OnRefusal == config.RefusalShared {
		return p, nil
	}
	undo()
	_, has := l.last.Plan.App(e.Container.ID)
	return nil, l.refusalLog.NoteResize(pod, e, more, why, has)
}

// updateRequest is the runtime's question about an update of a container by another
// process. An update with shares is a resize by the kubelet: the daemon sends no shares
// over CRI, and no other source reports a resize.
type updateRequest struct {
	id    string
	asked cri.Resources
	// The reply holds the values that replace values of the update.
	waits.Question[cri.Resources]
}

// scope: a resize has shares. Other updates, such as the daemon's own, do not change the plan at once.
func (u updateRequest) scope(*Loop) scope {
	if u.asked.Shares == 0 {
		return scopeAnswer
	}
	return scopeAll
}

func (u updateRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now())
	e := l.inventory.Objects().Container(u.id)
	if e == nil {
		u.Answer(cri.Resources{}, nil)
		return
	}
	_, p := l.last.Plan.App(u.id)
	if u.asked.Shares == 0 && l.planner.Others.Places(e) {
		u.Answer(cri.Resources{}, nil) // the manager that places the container decides
		l.fetchContainer(u.id)
		return
	}
	if u.asked.Shares == 0 {
		u.Answer(l.requests.Keep(e, p, u.asked, l.CPUManager != nil), nil)
		return
	}
	before := e.Size()
	if p != nil && p.Pool == pools.Other || l.planner.Others.Places(e) { // the daemon only records its size
		l.inventory.Resize(e, u.asked)
		l.resizes.Follow(u.id, before, e.Size(), true, l.now())
		u.Answer(cri.Resources{}, nil)
		l.fetchPod(e.Container.PodID)
		return
	}
	if u.IsCanceled() { // the record will show whether the runtime continues without a reply
		undo := l.inventory.Resize(e, u.asked)
		after := e.Size()
		undo()
		l.resizes.Follow(u.id, before, after, false, l.now())
		return
	}
	resized, err := l.resize(e, u.asked)
	if err != nil {
		u.Answer(cri.Resources{}, err)
		return
	}
	if resized != nil {
		p = resized
	}
	keep := l.requests.Keep(e, p, u.asked, l.CPUManager != nil)
	if u.asked.CPUs == "" && resized != nil {
		// The runtime writes its recorded cpuset with the update. The reply contains the new
		// cpuset, or the runtime would restore the old one for a moment. If other containers
		// must release the CPUs first, the next pass writes them.
		if cpus, _, _ := l.obtainable(p); cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).CPUs) {
			keep.CPUs = cpus.String()
		}
	}
	if keep.Shares == 0 {
		l.resizes.Follow(u.id, before, e.Size(), true, l.now())
	}
	u.Answer(keep, nil)
	l.fetchPod(e.Container.PodID) // for its new total
}
