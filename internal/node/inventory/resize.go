package inventory

import (
	"cmp"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Size holds the resources that the kubelet requests for a container and its pod.
type Size struct {
	Requested cri.Resources
	Total     pools.Resources // zero unless a resize has changed it
	before    pools.Resources // of Pod, if the daemon has computed Total
}

// Size returns the size of the container and its pod.
func (e *Container) Size() Size {
	s := Size{Requested: e.Container.Requested}
	if pod := e.Pod(); pod != nil {
		s.Total, s.before = pod.total, pod.before
	}
	return s
}

// Resize applies new resources to a container and to the total of its pod. The returned
// function restores the earlier values.
func (m *Inventory) Resize(e *Container, to cri.Resources) (undo func()) {
	was, at, pod := e.Container.Requested, e.requestedAt, e.Pod()
	var total, before pools.Resources
	if pod != nil {
		total, before = pod.total, pod.before
		if after := pod.totalAfter(e, to); after != total { // otherwise NRI has reported it, or it is unknown
			pod.total, pod.before = after, pod.resources()
		}
	}
	r := was
	r.Shares, r.Quota, r.Period = to.Shares, cmp.Or(to.Quota, r.Quota), cmp.Or(to.Period, r.Period)
	m.request(e, r)
	return func() {
		e.Container.Requested, e.requestedAt = was, at
		if pod != nil {
			pod.total, pod.before = total, before
		}
	}
}

// SetTotal records the new total of the pod, which may be nil. It ignores an unknown total.
func (e *Pod) SetTotal(total cri.Resources) {
	if e != nil && total.Shares != 0 {
		e.total, e.before = resourcesOf(total), pools.Resources{}
	}
}

// CorrectSize replaces the size of a container whose resize the runtime has not made as
// the daemon assumed.
func (m *Inventory) CorrectSize(e *Container, from, to Size) {
	if pod := e.Pod(); pod != nil {
		if pod.total == from.Total {
			pod.total, pod.before = to.Total, to.before
		} else { // another container of the pod has been resized since
			pod.total = pod.totalAfter(e, to.Requested)
		}
	}
	m.request(e, to.Requested)
}

// request records the resources that the kubelet requests now. Reports of the runtime from
// before do not replace them.
func (m *Inventory) request(e *Container, r cri.Resources) {
	e.Container.Requested, e.requestedAt = r, m.tick()
}

// minShares is the number of CFS shares without a CPU request (kubelet, MilliCPUToShares).
const minShares = 2

// totalAfter returns the total of the pod after the resize of one of its containers. The
// runtime reports the total later or never. A pod requests the sum of its containers, or
// the request of its largest init container if that is more (KEP-753). If the sum over all
// known containers exceeds the total, an init container has ended.
//
// Pod-level resources (spec.resources) do not change with a container. The planner does not
// recognise each such pod: its containers can request less than the pod. So the total grows
// only as far as they need it.
func (e *Pod) totalAfter(c *Container, to cri.Resources) pools.Resources {
	total := e.resources()
	if total.Shares == 0 {
		return pools.Resources{} // unknown
	}
	if p := e.objects.InputOf(e.UID, c.inventory.now()); p.HasPodLevelResources() {
		return e.total // the kubelet resizes the pod apart from its containers
	}
	var all, live int64
	for _, o := range e.newest() {
		shares := int64(o.Request().Shares)
		all += shares
		if o.Container.State != cri.Exited {
			live += shares
		}
	}
	before, after := int64(total.Shares), int64(total.Shares)
	switch more := int64(to.Shares) - int64(c.Request().Shares); {
	case e.total != (pools.Resources{}) && e.before == (pools.Resources{}): // of NRI: a pod grows before its containers
		after = max(after, live+more)
	case before == all:
		after += more
	case before > live:
		after = max(after, live+more)
	default: // an older kubelet has left the total as it was
		after = live + more
	}
	total.Shares = uint64(max(after, minShares))
	if total.Quota > 0 {
		total.Quota = int64(total.Shares) * total.Quota / before
	}
	return total
}

// resources returns the total of the pod, zero if it is unknown.
func (e *Pod) resources() pools.Resources {
	if e.total != (pools.Resources{}) {
		return e.total
	}
	return resourcesOf(e.Pod.Resources)
}

// isResized reports whether the total is of the last resize of the pod. NRI or the runtime has reported
// it.
func (e *Pod) isResized() bool {
	if e.total != (pools.Resources{}) {
		return e.before == (pools.Resources{})
	}
	return e.Pod.Resized
}

// newest returns the newest containers of the sandbox, by name.
func (e *Pod) newest() map[string]*Container {
	newest := make(map[string]*Container)
	for _, c := range e.objects.within[e.Pod.ID] {
		if o := newest[c.Container.Name]; o == nil || c.Container.CreatedAt.After(o.Container.CreatedAt) {
			newest[c.Container.Name] = c
		}
	}
	return newest
}

// keepTotal keeps the total of old after a resize until the runtime reports the same. A computed
// total also ends with a report that is neither the previous one nor the total before the resize:
// the daemon cannot know the request of init containers.
func (e *Pod) keepTotal(old *Pod) {
	reported := resourcesOf(e.Pod.Resources)
	isNew := old.before != (pools.Resources{}) && reported != old.before && e.Pod.Resources != old.Pod.Resources
	if reported.Shares != old.total.Shares && (!isNew || e.isTotalOutdated(reported)) {
		e.total, e.before = old.total, old.before
	}
}

// isTotalOutdated reports whether the live containers of the sandbox request more than its total. Such a
// report is from before their resizes. With it, the pod would seem to have pod-level resources.
func (e *Pod) isTotalOutdated(total pools.Resources) bool {
	var live uint64
	for _, c := range e.newest() {
		if shares := c.Request().Shares; c.Container.State != cri.Exited && shares > minShares {
			live += shares
		}
	}
	return total.Shares < live
}
