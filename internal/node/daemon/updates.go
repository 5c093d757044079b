package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// updateRequest asks what is to become of somebody's update of a container. One that has
// shares is a resize, of which nothing else tells: nobody of ours sends shares over CRI.
type updateRequest struct {
	id     string
	asked  cri.Resources
	asker  <-chan struct{} // closed when nobody waits any more
	answer chan<- updated  // has room for one
}

// updated is what to make of an update, or why it must not be made.
type updated struct {
	keep cri.Resources
	err  error
}

func (updateRequest) scope(*Loop) scope { return scopeAll }

func (u updateRequest) apply(l *Loop) {
	l.settleUpdates(true, l.now())
	e := l.inventory.Container(u.id)
	if e == nil {
		u.answer <- updated{}
		return
	}
	_, p := findPlacement(&l.status.plan, u.id)
	if u.asked.Shares == 0 && l.leaves(e) {
		u.answer <- updated{} // as whoever places it wants it
		l.fetchContainer(u.id)
		return
	}
	if u.asked.Shares == 0 {
		u.answer <- updated{keep: l.keep(e, p, u.asked)}
		return
	}
	before := l.inventory.Size(e)
	if p != nil && p.Pool == pools.Other || l.leaves(e) { // its size is known here, and nothing else of it is ours
		l.inventory.Resize(e, u.asked)
		l.followResize(u.id, before, l.inventory.Size(e), true)
		u.answer <- updated{}
		l.fetchPod(e.Container.PodID)
		return
	}
	if gone(u.asker) { // the runtime goes on without an answer, or gives up: it will show
		undo := l.inventory.Resize(e, u.asked)
		after := l.inventory.Size(e)
		undo()
		l.followResize(u.id, before, after, false)
		return
	}
	resized, err := l.resize(e, u.asked)
	if err != nil {
		u.answer <- updated{err: err}
		return
	}
	if resized != nil {
		p = resized
	}
	keep := l.keep(e, p, u.asked)
	if u.asked.CPUs == "" && resized != nil {
		// The runtime writes the cpuset with the rest: the new one, or it would put the
		// old one back for a moment. Where others must leave first, that is left to the pass.
		if cpus, _, _ := l.obtainable(p); cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).CPUs) {
			keep.CPUs = cpus.String()
		}
	}
	if keep.Shares == 0 {
		l.followResize(u.id, before, l.inventory.Size(e), true)
	}
	u.answer <- updated{keep: keep}
	l.fetchPod(e.Container.PodID) // its total is another
}

// keep is what an update must not change.
func (l *Loop) keep(e *inventory.Container, p *pools.Placement, asked cri.Resources) cri.Resources {
	var keep cri.Resources
	if p != nil && p.Pool == pools.Other {
		return keep
	}
	cpus := l.cache.SettledCPUs(e.Path)
	if l.CPUManager != nil && p != nil {
		cpus = p.Runs() // nobody has to leave them first
	}
	if asked.CPUs != "" && !cpus.IsEmpty() && cpus.String() != asked.CPUs {
		keep.CPUs = cpus.String()
		l.cache.NoteOverride(e.Path)
	}
	if p == nil {
		return keep
	}
	// An update without CPUs has the runtime write those that are on record. While a seal
	// is under way these are the old ones, which somebody else may have by now.
	if asked.CPUs == "" && !cpus.IsEmpty() && cpus.Equal(p.Runs()) && !cpus.Equal(l.cache.Current(e.Path).Recorded) {
		keep.CPUs = cpus.String()
	}
	if asked.Shares != 0 && p.Shares != 0 {
		keep.Shares = p.Shares
	}
	switch {
	case asked.Quota > 0 && p.Unlimited:
		keep.Quota = -1
	case asked.Quota != 0 && p.Limit != 0:
		keep.Quota, keep.Period = desired.LimitOf(p)
	}
	if !p.Mems.IsEmpty() && asked.Mems != "" && !l.cache.IsBusy(e.Path) {
		keep.Mems = p.Mems.String()
	}
	return keep
}
