package daemon

import (
	"cmp"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// updateAsked asks what is to become of somebody's update of a container.
type updateAsked struct {
	id     string
	asked  cri.Resources
	answer chan<- cri.Resources
}

func (u updateAsked) apply(l *loop) {
	l.settlePromises(true, time.Now())
	e := l.model.containers[u.id]
	if e == nil {
		u.answer <- cri.Resources{}
		return
	}
	_, p := findPlacement(&l.status.plan, u.id)
	u.answer <- l.keep(e, p, u.asked)
	if r := &e.container.Requested; u.asked.Shares != 0 {
		// A resize: nobody of ours sends shares over CRI.
		r.Shares, r.Period = u.asked.Shares, cmp.Or(u.asked.Period, r.Period)
		r.Quota = cmp.Or(u.asked.Quota, r.Quota)
		l.model.clock++
		e.told = l.model.clock
		l.fetchPod(e.container.PodID) // its total is another
	}
}

// keep is what an update must not change.
func (l *loop) keep(e *containerEntry, p *pools.Placement, asked cri.Resources) cri.Resources {
	var keep cri.Resources
	if asked.CPUs != "" {
		if cpus := l.tree.settledCPUs(e.path); !cpus.IsEmpty() && cpus.String() != asked.CPUs {
			keep.CPUs = cpus.String()
			l.tree.overrule(e.path)
		}
	}
	if p == nil {
		return keep
	}
	if asked.Shares != 0 && p.Shares != 0 {
		keep.Shares = p.Shares
	}
	if asked.Quota > 0 && p.Unlimited && (asked.Shares == 0 || exclusiveCPUs(resourcesOf(asked)) > 0) {
		keep.Quota = -1
	}
	if !p.Mems.IsEmpty() && asked.Mems != "" && !l.tree.busy(e.path) {
		keep.Mems = p.Mems.String()
	}
	return keep
}
