package daemon

import (
	"cmp"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// asked returns what the kubelet asked for. The runtime's spec may hold what was
// made of it; older runtimes tell only that.
func asked(c cri.Container) pools.Resources {
	if c.Requested.Shares == 0 {
		return resourcesOf(c.Recorded)
	}
	return resourcesOf(c.Requested)
}

func resourcesOf(r cri.Resources) pools.Resources {
	return pools.Resources{Shares: r.Shares, Quota: r.Quota, Period: r.Period}
}

// resize takes a container's new resources into the model, and returns where it is to
// be then, nil if that is not known. A container that asks for more CPUs of its own than
// it can get is refused, where others are that do so at their creation, and keeps what
// it has.
func (l *loop) resize(e *containerEntry, to cri.Resources) (*pools.Placement, error) {
	before, more := exclusiveCPUs(asked(e.container)), exclusiveCPUs(resourcesOf(to))
	undo := l.model.resize(e, to)
	if !l.status.planned {
		return nil, nil //nolint:nilnil // see above
	}
	plan, _ := l.scene(time.Now()).decide()
	pod, p := findPlacement(&plan, e.container.ID)
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	why := cmp.Or(p.Refused, p.Short)
	if why == nil || more <= before || l.settings.config.OnRefusal == config.RefusalShared {
		return p, nil
	}
	undo()
	return nil, l.refuseResize(pod, e, more, why)
}

// refuseResize records that a resize is refused.
func (l *loop) refuseResize(pod *pools.PodPlan, e *containerEntry, to int, why *allocate.Refusal) error {
	l.refusals.total[why.Code]++
	l.log.Warn("resize refused", "pod", pod.Namespace+"/"+pod.Name, "container", e.container.Name, "container_id", e.container.ID,
		"asked", to, "code", why.Code, "why", why.Why)
	has := "no CPUs of its own"
	if _, p := findPlacement(&l.status.plan, e.container.ID); p != nil && p.Exclusive {
		has = "CPUs " + p.CPUs.String()
	}
	return fmt.Errorf("cpupoold: %s/%s, container %s: resize to %d CPUs of its own: %s: %s; it keeps what it has, %s",
		pod.Namespace, pod.Name, e.container.Name, to, why.Code, why.Why, has)
}

// resize takes new resources over, and what they make of the pod's total. It returns
// how to undo that.
func (m *model) resize(e *containerEntry, to cri.Resources) (undo func()) {
	was, told, pod := e.container.Requested, e.told, m.pods[e.container.PodID]
	var total pools.Resources
	if pod != nil {
		total = pod.total
		pod.total = m.totalAfter(pod, e, to)
	}
	r := &e.container.Requested
	r.Shares, r.Period = to.Shares, cmp.Or(to.Period, r.Period)
	r.Quota = cmp.Or(to.Quota, r.Quota)
	m.clock++
	e.told = m.clock
	return func() {
		e.container.Requested, e.told = was, told
		if pod != nil {
			pod.total = total
		}
	}
}

// totalAfter is a pod's total when one of its containers has got another size. The
// runtime tells it later, or never. A pod asks for what its containers do together, or
// for what its largest init container does, if that is more (KEP-753): and an init
// container has ended where all that are known come to more than the pod's total.
func (m *model) totalAfter(pod *podEntry, e *containerEntry, to cri.Resources) pools.Resources {
	total := pod.resources()
	if total.Shares == 0 {
		return pools.Resources{} // not known
	}
	newest := make(map[string]*containerEntry)
	for _, c := range m.containers {
		name := c.container.Name
		if o := newest[name]; c.container.PodID == e.container.PodID && (o == nil || c.container.CreatedAt.After(o.container.CreatedAt)) {
			newest[name] = c
		}
	}
	var all, live int64
	for _, c := range newest {
		shares := int64(asked(c.container).Shares)
		all += shares
		if c.container.State != cri.Exited {
			live += shares
		}
	}
	before, after := int64(total.Shares), int64(total.Shares)
	switch more := int64(to.Shares) - int64(asked(e.container).Shares); {
	case before >= all:
		after += more
	case before > live:
		after = max(after, live+more)
	default:
		after = live + more
	}
	total.Shares = uint64(max(after, leastShares))
	if total.Quota > 0 {
		total.Quota = int64(total.Shares) * total.Quota / before
	}
	return total
}

// leastShares are those of no request at all (kubelet, MilliCPUToShares).
const leastShares = 2

// resources are the pod's total; zero if that is not known.
func (e *podEntry) resources() pools.Resources {
	if e.total != (pools.Resources{}) {
		return e.total
	}
	return resourcesOf(e.pod.Resources)
}

// outgrown takes over what resizes have made of the total, until the runtime tells the
// same.
func (e *podEntry) outgrown(old *podEntry) {
	if e.total = old.total; e.total.Shares == e.pod.Resources.Shares {
		e.total = pools.Resources{}
	}
}
