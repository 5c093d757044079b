package daemon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/resize"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// followResize reads the runtime's record after a resize.
func (l *Loop) followResize(id string, before, after inventory.Size, applied bool) {
	l.resizes.Follow(id, before, after, applied, l.now())
}

// askResizes reads the record of each resize that is due.
func (l *Loop) askResizes(now time.Time) {
	for _, q := range l.resizes.Due(now) {
		// In the queue of the updates: an update that follows is not in the record yet.
		l.workers.Updates.Submit(string(q.Path), func(ctx context.Context) event {
			return resizeSeen{q, inventory.FetchContainer(ctx, &l.Host, q.ID, 0)}
		})
	}
}

// resizeSeen is the runtime's record of a container that is being resized.
type resizeSeen struct {
	of resize.Query
	inventory.ContainerStatus
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
	if !l.status.planned {
		return nil, nil //nolint:nilnil // see above
	}
	in := l.input(l.now())
	plan := in.Decide().Plan
	pod, p := findPlacement(&plan, e.Container.ID)
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	why := cmp.Or(p.Refused, p.Short)
	if why == nil || more <= before || l.settings.Config.OnRefusal == config.RefusalShared {
		return p, nil
	}
	undo()
	return nil, l.refuseResize(pod, e, more, why)
}

// refuseResize records that a resize is refused and returns the error for the runtime.
func (l *Loop) refuseResize(pod *pools.PodPlan, e *inventory.Container, to int, why *allocate.Refusal) error {
	l.refusalLog.NoteResize(pod, e, to, why)
	has := "no exclusive CPUs"
	if _, p := findPlacement(&l.status.plan, e.Container.ID); p != nil && p.Exclusive {
		has = "CPUs " + p.CPUs.String()
	}
	return fmt.Errorf("cpupoold: %s/%s, container %s: resize to %d exclusive CPUs: %s: %s; it keeps %s",
		pod.Namespace, pod.Name, e.Container.Name, to, why.Code, why.Why, has)
}

// updateRequest is the runtime's question about an update of a container by another
// process. An update with shares is a resize by the kubelet: the daemon sends no shares
// over CRI, and no other source reports a resize.
type updateRequest struct {
	id       string
	asked    cri.Resources
	canceled <-chan struct{}     // closed when the runtime cancels
	answer   chan<- updateAnswer // has room for one
}

// updateAnswer is the reply to an updateRequest: values that replace values of the update, or the
// reason for its refusal.
type updateAnswer struct {
	keep cri.Resources
	err  error
}

func (u updateRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now())
	e := l.inventory.Container(u.id)
	if e == nil {
		u.answer <- updateAnswer{}
		return
	}
	_, p := findPlacement(&l.status.plan, u.id)
	if u.asked.Shares == 0 && l.others.Claims(l.inventory, e) {
		u.answer <- updateAnswer{} // the manager that places the container decides
		l.fetchContainer(u.id)
		return
	}
	if u.asked.Shares == 0 {
		u.answer <- updateAnswer{keep: l.keep(e, p, u.asked)}
		return
	}
	before := l.inventory.SizeOf(e)
	if p != nil && p.Pool == pools.Other || l.others.Claims(l.inventory, e) { // the daemon only records its size
		l.inventory.Resize(e, u.asked)
		l.followResize(u.id, before, l.inventory.SizeOf(e), true)
		u.answer <- updateAnswer{}
		l.fetchPod(e.Container.PodID)
		return
	}
	if isClosed(u.canceled) { // the record will show whether the runtime continues without a reply
		undo := l.inventory.Resize(e, u.asked)
		after := l.inventory.SizeOf(e)
		undo()
		l.followResize(u.id, before, after, false)
		return
	}
	resized, err := l.resize(e, u.asked)
	if err != nil {
		u.answer <- updateAnswer{err: err}
		return
	}
	if resized != nil {
		p = resized
	}
	keep := l.keep(e, p, u.asked)
	if u.asked.CPUs == "" && resized != nil {
		// The runtime writes its recorded cpuset with the update. The reply contains the new
		// cpuset, or the runtime would restore the old one for a moment. If other containers
		// must release the CPUs first, the next pass writes them.
		if cpus, _, _ := l.obtainable(p); cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).CPUs) {
			keep.CPUs = cpus.String()
		}
	}
	if keep.Shares == 0 {
		l.followResize(u.id, before, l.inventory.SizeOf(e), true)
	}
	u.answer <- updateAnswer{keep: keep}
	l.fetchPod(e.Container.PodID) // for its new total
}

// keep returns the values that an update must not change.
func (l *Loop) keep(e *inventory.Container, p *pools.Placement, asked cri.Resources) cri.Resources {
	var keep cri.Resources
	if p != nil && p.Pool == pools.Other {
		return keep
	}
	cpus := l.cache.SettledCPUs(e.Path)
	if l.CPUManager != nil && p != nil {
		cpus = p.Runs() // the kubelet has already moved the other containers
	}
	current := l.cache.Current(e.Path)
	if cpus.IsEmpty() && p != nil && current.Exists && current.CPUs.Equal(p.Runs()) {
		cpus = current.CPUs // the record is unknown, and can contain CPUs of another container
	}
	if asked.CPUs != "" && !cpus.IsEmpty() && cpus.String() != asked.CPUs {
		keep.CPUs = cpus.String()
		l.cache.NoteOverride(e.Path)
	}
	if p == nil {
		return keep
	}
	// With an update without CPUs the runtime writes its recorded CPUs. While an update of
	// the record is in progress, those can belong to another container.
	recorded := current.RecordedKnown && cpus.Equal(current.Recorded)
	if asked.CPUs == "" && !cpus.IsEmpty() && cpus.Equal(p.Runs()) && !recorded {
		keep.CPUs = cpus.String()
	}
	if asked.Shares != 0 && p.Shares != 0 {
		keep.Shares = p.Shares
	}
	switch {
	case asked.Quota > 0 && p.Unlimited:
		keep.Quota = -1
	case asked.Quota != 0 && p.Limit != 0:
		keep.Quota, keep.Period = desired.LimitQuota(p)
	}
	if !p.Mems.IsEmpty() && asked.Mems != "" && !l.cache.IsBusy(e.Path) {
		keep.Mems = p.Mems.String()
	}
	return keep
}
