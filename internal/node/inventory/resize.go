package inventory

import (
	"cmp"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Resize takes new resources over, and what they make of the pod's total. It returns
// how to undo that.
func (m *Inventory) Resize(e *Container, to cri.Resources) (undo func()) {
	was, told, pod := e.Container.Requested, e.requestedAt, m.pods[e.Container.PodID]
	var total pools.Resources
	if pod != nil {
		total = pod.total
		pod.total = m.totalAfter(pod, e, to)
	}
	r := &e.Container.Requested
	r.Shares, r.Period = to.Shares, cmp.Or(to.Period, r.Period)
	r.Quota = cmp.Or(to.Quota, r.Quota)
	m.Clock++
	e.requestedAt = m.Clock
	return func() {
		e.Container.Requested, e.requestedAt = was, told
		if pod != nil {
			pod.total = total
		}
	}
}

// totalAfter is a pod's total when one of its containers has got another size. The
// runtime tells it later, or never. A pod asks for what its containers do together, or
// for what its largest init container does, if that is more (KEP-753): and an init
// container has ended where all that are known come to more than the pod's total.
func (m *Inventory) totalAfter(pod *Pod, e *Container, to cri.Resources) pools.Resources {
	total := pod.resources()
	if total.Shares == 0 {
		return pools.Resources{} // not known
	}
	newest := make(map[string]*Container)
	for _, c := range m.containers {
		name := c.Container.Name
		if o := newest[name]; c.Container.PodID == e.Container.PodID && (o == nil || c.Container.CreatedAt.After(o.Container.CreatedAt)) {
			newest[name] = c
		}
	}
	var all, live int64
	for _, c := range newest {
		shares := int64(c.Request().Shares)
		all += shares
		if c.Container.State != cri.Exited {
			live += shares
		}
	}
	before, after := int64(total.Shares), int64(total.Shares)
	switch more := int64(to.Shares) - int64(e.Request().Shares); {
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

// Size is what the kubelet asks for, for a container and its pod.
type Size struct {
	Requested cri.Resources
	Total     pools.Resources
}

// Size is a container's and its pod's.
func (m *Inventory) Size(e *Container) Size {
	s := Size{Requested: e.Container.Requested}
	if pod := m.pods[e.Container.PodID]; pod != nil {
		s.Total = pod.total
	}
	return s
}

// SizeAgain gives a container another of the sizes that it may have.
func (m *Inventory) SizeAgain(e *Container, from, to Size) {
	if pod := m.pods[e.Container.PodID]; pod != nil {
		if pod.total == from.Total {
			pod.total = to.Total
		} else { // it has changed since for other reasons
			pod.total = m.totalAfter(pod, e, to.Requested)
		}
	}
	m.Clock++
	e.Container.Requested, e.requestedAt = to.Requested, m.Clock
}
