package daemon

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// resizeTimeout is how long the daemon assumes a resize that the runtime does not show after
// the reply. The runtime asks other plugins next, for at most 2 s each. CRI-O answers
// questions with the earlier size while it makes the update.
const resizeTimeout = 3 * time.Second

// resizing is a resize about which the runtime has asked. The runtime does not report the
// result: the OCI runtime may fail, and the runtime may continue without a late reply. So
// the daemon reads the runtime's record until it shows the last size, or until the update
// must have ended. The record decides.
type resizing struct {
	// sizes holds the possible sizes of the container: the size before the first request,
	// then the size of each request since the record last showed a new size.
	sizes []inventory.Size
	// current is the index of the size in the inventory.
	current  int
	since    time.Time     // when the last request came
	due      time.Time     // when the record is read next
	interval time.Duration // from that to the reading after it
	// querying is true while the record is read.
	querying bool
}

// followResize reads the runtime's record after a resize. The inventory has the new size
// now (applied), or as soon as the record shows it. The record shows a resize by its shares,
// so a resize with equal shares needs no reading.
func (l *Loop) followResize(id string, before, after inventory.Size, applied bool) {
	now := l.now()
	r := &resizing{since: now, interval: replyUpdateTimeout, due: now.Add(replyUpdateTimeout)}
	open := l.resizing[id]
	if open != nil {
		r.sizes, r.current = open.sizes, open.current
		if last := len(r.sizes) - 1; r.sizes[last].Requested.Shares == after.Requested.Shares {
			r.sizes = r.sizes[:max(last, 1)] // the kubelet repeats the request without end
		}
	} else {
		r.sizes = []inventory.Size{before}
	}
	if r.sizes = append(r.sizes, after); applied {
		r.current = len(r.sizes) - 1
	}
	if open != nil || before.Requested.Shares != after.Requested.Shares {
		l.resizing[id] = r
	}
}

// settleResizes reads the record of each resize that is due.
func (l *Loop) settleResizes(now time.Time) {
	for id, r := range l.resizing {
		e := l.inventory.Container(id)
		switch {
		case e == nil || e.Container.State == cri.Exited:
			delete(l.resizing, id)
		case !r.querying && !now.Before(r.due):
			r.querying = true
			// In the queue of the updates: an update that follows is not in the record yet.
			l.workers.Updates.Submit(string(e.Path), func(ctx context.Context) event {
				return resizeSeen{r, inventory.FetchContainer(ctx, &l.Host, id, 0)}
			})
		}
	}
}

// nextResize calls earlier with the times of the next readings.
func (l *Loop) nextResize(earlier func(time.Time)) {
	for _, r := range l.resizing {
		if !r.querying {
			earlier(r.due)
		}
	}
}

// resizeSeen is the runtime's record of a container that is being resized.
type resizeSeen struct {
	of *resizing
	inventory.ContainerStatus
}

func (resizeSeen) scope(*Loop) scope { return scopeAll }

func (s resizeSeen) apply(l *Loop) {
	r, e := s.of, l.inventory.Container(s.ID)
	if l.resizing[s.ID] != r || e == nil {
		return // a newer resize, or the end of the container, replaces this one
	}
	now := l.now()
	r.querying, r.due, r.interval = false, now.Add(r.interval), 2*r.interval
	made := false
	if s.Err == nil && s.Partial == nil {
		has := r.shownBy(s.Recorded)
		made = has == len(r.sizes)-1
		if has != r.current && (made || now.Sub(r.since) >= resizeTimeout) {
			l.log.Warn("the runtime has not made a resize as it was answered; using the size that the runtime has recorded", "container_id", s.ID,
				"shares", s.Recorded.Shares, "believed", r.sizes[r.current].Requested.Shares)
			l.inventory.CorrectSize(e, r.sizes[r.current], r.sizes[has])
			r.current = has
		}
		containerFetched{s.ContainerStatus}.apply(l)
	}
	if made || now.Sub(r.since) >= hostenv.UpdateTimeout {
		delete(l.resizing, s.ID)
	}
}

// shownBy returns the index of the newest size that a record can show, 0 for an unknown
// size.
func (r *resizing) shownBy(record cri.Resources) int {
	for i := len(r.sizes) - 1; i > 0; i-- {
		if r.sizes[i].Requested.Shares == record.Shares {
			return i
		}
	}
	return 0
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

func (updateRequest) scope(*Loop) scope { return scopeAll }

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
