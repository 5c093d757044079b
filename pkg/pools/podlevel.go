package pools

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Pods with pod-level resources
//
// Since Kubernetes 1.34 a pod can have resources of its own (spec.resources). The CRI has no
// field for them. A container without a CPU limit then has the pod's limit as its quota, and
// a container without a request has the pod's limit as its shares
// (k8s.io/kubernetes 1.37.0, pkg/kubelet/kuberuntime/kuberuntime_container_linux.go). The
// planner recognises such a pod by these values, because the containers of any other
// Guaranteed pod have equal requests and limits, which add up to the pod's total.

// PodLevel selects what a Guaranteed pod with pod-level resources gets.
type PodLevel string

// Values of PodLevel. The empty value means PodLevelPod.
const (
	// PodLevelPod: the pod has its total in exclusive CPUs. A container with whole CPUs has
	// its part of them alone, and the other containers share the rest, the pod pool.
	PodLevelPod       PodLevel = "pod"
	PodLevelContainer PodLevel = "container" // only containers with whole CPUs have exclusive CPUs
)

// PodLevelOption is the name of PodLevel in annotations and in [Pools].Overrides.
const PodLevelOption = "pod-level"

// podLevel contains the facts about a recognised pod.
type podLevel struct {
	uid string
	// total is the number of exclusive CPUs of the pod. It is 0 if the pod has no pool: in
	// mode container, and if the pod's total is not a whole number of CPUs.
	total int
	// sharers are the names of the containers without exclusive CPUs, sorted. They are
	// remembered with the assignment: the pod keeps its pool while only one container is live.
	sharers []string
	owners  []string // names of the other containers, sorted
}

// set reports whether the pod has CPUs as a whole.
func (l *podLevel) set() bool { return l != nil && l.total > 0 }

// podLevel recognises a Guaranteed pod with pod-level resources, and changes the verdicts of
// its containers. It returns nil for any other pod.
func (c *classifier) podLevel(p *Pod, verdicts []verdict) *podLevel {
	record := c.recordOf(p.UID)
	known := record.Sharers
	n := countRequests(p)
	if !n.totalKnown {
		if len(known) == 0 {
			c.withoutTotal(p, verdicts, n)
			return nil
		}
	} else if len(known) == 0 && (!n.isPodLevel(p) || c.isApart(p, verdicts, n)) {
		return nil
	}
	adopted := *p
	p = &adopted
	p.adopt()
	l := &podLevel{uid: p.UID, sharers: slices.Clone(known)}
	carved, own, outdated := carveOuts(p, verdicts, record, n)
	if c.in.Pools.PodLevelOf(p.Annotations) == PodLevelPod {
		if l.total = record.Total; n.totalKnown {
			l.total = p.Resources.wholeTotal()
		}
		if former := l.resized(p, carved, record.Total); former >= own && former > 0 {
			l.total = min(l.total, former)
		}
		if outdated {
			l.total = max(l.total, record.Total)
		}
	}
	for i := range p.Containers {
		ctr := &p.Containers[i]
		if ctr.Kind == App && ctr.Foreign == nil && ctr.Name != "" && !slices.Contains(carved, ctr.Name) {
			l.sharers = append(l.sharers, ctr.Name)
			verdicts[i] = l.sharer()
		}
	}
	l.sharers = slices.Compact(slices.Sorted(slices.Values(l.sharers)))
	l.owners = slices.Sorted(slices.Values(carved))
	return l
}

// HasPodLevelResources reports whether only pod-level resources explain the resources of the
// pod's containers, which are sorted: see [CompareContainers].
func (p *Pod) HasPodLevelResources() bool {
	n := countRequests(p)
	return p.QoS == QoSGuaranteed && n.totalKnown && n.isPodLevel(p)
}

// adopt sets the total of a recognised pod to the resources of a container that has more. The
// total of the sandbox is outdated then: CRI-O reports the total at its creation. After a resize that
// the runtime has reported, the total counts: ephemeral containers keep their resources.
func (p *Pod) adopt() {
	if p.Resized {
		return
	}
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		if ctr := &p.Containers[i]; ctr.asks() && p.Resources.Shares != 0 && ctr.Resources.Shares > p.Resources.Shares && ctr.Resources.Shares < sharesCap {
			p.Resources = ctr.Resources
		}
	}
}

// resized returns the total of a pod in the middle of a resize, and 0 outside of one. In a resize
// a sharer has whole CPUs below the pod's total. When the pod grows, it has its new total first,
// and its containers have the old one. When it shrinks, the containers are first. The pod
// keeps the recorded total in the meantime. If the pod is settled and no sharer has the total
// of the sandbox, that is outdated. A resize does not change ephemeral containers. While one runs, a pod
// that grows keeps the recorded total.
func (l *podLevel) resized(p *Pod, carved []string, recorded int) int {
	part, full := 0, false
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		if ctr := &p.Containers[i]; ctr.asks() && !slices.Contains(carved, ctr.Name) {
			full = full || ctr.Resources.isFull(p.Resources)
			if ctr.Resources.isPart(p.Resources) {
				part = max(part, ctr.Resources.ExclusiveCPUs())
			}
		}
	}
	switch {
	case part == 0:
		return 0
	case p.Settled && !full:
		return part
	}
	return recorded
}

// unreadLevel returns the recorded facts about an unread pod with pod-level resources. Its
// containers stay in the roles that they have.
func (c *classifier) unreadLevel(p *Pod, verdicts []verdict) *podLevel {
	record := c.recordOf(p.UID)
	if len(record.Sharers) == 0 {
		return nil
	}
	l := &podLevel{uid: p.UID, sharers: record.Sharers, owners: record.Owners, total: record.Total}
	for i := range p.Containers {
		if v := &verdicts[i]; v.pool == Guaranteed && slices.Contains(record.Sharers, p.Containers[i].Name) {
			if l.set() {
				v.podPool = true
			} else {
				*v = shared(CodeUnread, v.reason.Text)
			}
		}
	}
	return l
}

// sharer returns the verdict of a container without exclusive CPUs.
func (l *podLevel) sharer() verdict {
	if !l.set() {
		return shared(CodeNoRequest, "no whole CPUs in a pod with pod-level resources")
	}
	return verdict{pool: Guaranteed, podPool: true, reason: Reason{CodePodPool,
		"shares the " + count(l.total, "CPU") + " of its pod, which has pod-level resources"}}
}

// recordOf returns the assignment that records the sharers of a pod, empty if none does.
func (c *classifier) recordOf(uid string) Assignment {
	if c.haveSharers {
		for i := range c.in.Previous {
			if a := &c.in.Previous[i]; len(a.Sharers) > 0 && a.PodUID == uid {
				return *a
			}
		}
	}
	return Assignment{}
}

// carveOuts returns the names of the containers with exclusive CPUs in a pod that is
// recognised, and the sum of their CPUs. A known sharer stays a sharer: in the middle of a resize,
// it can look like an owner. If the candidates together ask for more than the pod's total, only
// earlier owners have exclusive CPUs. Then outdated reports that the total is outdated.
func carveOuts(p *Pod, verdicts []verdict, record Assignment, n requests) (names []string, cpus int, outdated bool) {
	var had []string // live earlier owners
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		ctr, v := &p.Containers[i], &verdicts[i]
		unknown := v.atLeast && v.want == 0
		if ctr.State != Exited && slices.Contains(record.Owners, ctr.Name) {
			had = append(had, ctr.Name)
		}
		if ctr.Foreign != nil || v.pool != Guaranteed || slices.Contains(record.Sharers, ctr.Name) ||
			n.totalKnown && !unknown && !ctr.Resources.isPart(p.Resources) && !slices.Contains(had, ctr.Name) {
			continue
		}
		names = append(names, ctr.Name)
		if ctr.State != Exited {
			cpus += v.want
		}
	}
	if total, _ := p.Resources.WholeCPUs(); n.totalKnown && cpus > total {
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(had, name) })
		return names, 0, len(names) > 0
	}
	return names, cpus, false
}

// isApart reports whether the live containers with whole CPUs have exclusive CPUs each, although
// no sharers are recorded. Then the kubelet has resized containers, and the total of the sandbox
// is outdated: CRI-O reports the total at the creation. One of two facts shows it:
//   - Each of the containers has requested less than the total before.
//   - They have more CPUs than the total. Earlier builds gave exclusive CPUs to containers without
//     resources, too, which have exactly the total of the pod.
//
// Exclusive CPUs alone do not show it. After the loss of the journal, the CPUs of a container that
// shares are found as its own.
func (c *classifier) isApart(p *Pod, verdicts []verdict, n requests) bool {
	most, _ := p.Resources.WholeCPUs()
	owners, larger, parts := 0, false, true
	var cpus cpuset.Set
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		ctr := &p.Containers[i]
		if !ctr.asks() || verdicts[i].pool != Guaranteed {
			continue
		}
		had, part := c.owned(Key{PodUID: p.UID, Container: ctr.Name})
		if had.IsEmpty() {
			return false
		}
		owners, cpus, parts = owners+1, cpus.Union(had), parts && part
		most, larger = max(most, verdicts[i].want), larger || ctr.Resources.Shares > p.Resources.Shares
	}
	return owners > 1 && n.mismatched == 0 && (parts || cpus.Len() > most && (n.full < 2 || larger))
}

// owned returns the exclusive CPUs that assignments record for a container, and [Assignment].Part. If
// the pool has no CPU of them, it returns no CPUs.
func (c *classifier) owned(k Key) (cpus cpuset.Set, part bool) {
	pool := c.in.Pools.Guaranteed.Union(c.in.Pools.Away)
	for i := range c.in.Previous {
		a := &c.in.Previous[i]
		if all := a.CPUs.Union(a.Away); a.Key == k && all.Overlaps(pool) {
			cpus, part = cpus.Union(all), part || a.Part
		}
	}
	return cpus, part
}

// PodLevelOf returns the mode for a pod with these annotations. Only an annotation with a
// valid value counts, where pods may choose the mode.
func (p *Pools) PodLevelOf(annotations map[string]string) PodLevel {
	mode := p.PodLevel
	if value, found := annotations[overridePrefix+PodLevelOption]; found && slices.Contains(p.Overrides, PodLevelOption) {
		if chosen := PodLevel(value); chosen.Valid() {
			mode = chosen
		}
	}
	return cmp.Or(mode, PodLevelPod)
}

// Valid reports whether m is a mode.
func (m PodLevel) Valid() bool { return m == PodLevelPod || m == PodLevelContainer }

// newest returns the index of the newest instance of the next container of the pod's spec, at or
// after the index at. It returns -1 if no container is left. next is the index after the
// container's instances. An iterator would allocate.
func (p *Pod) newest(at int) (i, next int) {
	for at < len(p.Containers) {
		of := &p.Containers[at]
		same, _ := cut(p.Containers[at:], func(ctr *Container) bool { return ctr.Name == of.Name && ctr.Kind == of.Kind })
		if of.Kind == App {
			return at + newestOf(same), at + len(same)
		}
		at += len(same)
	}
	return -1, at
}

// withoutTotal handles a pod with an unknown total. The container with the most CPUs can be
// one without a request. In a pod with several containers, it gets no exclusive CPUs.
func (c *classifier) withoutTotal(p *Pod, verdicts []verdict, n requests) {
	if n.asking < 2 {
		return
	}
	most := 0
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		if ctr := &p.Containers[i]; ctr.asks() && verdicts[i].pool == Guaranteed {
			most = max(most, verdicts[i].want)
		}
	}
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		ctr, v := &p.Containers[i], &verdicts[i]
		if !ctr.asks() || v.pool != Guaranteed || v.want < most || v.want == 0 {
			continue
		}
		*v = shared(CodePodTotalUnknown, "the total of the pod is not known, so its "+count(v.want, "whole CPU")+" may be the pod's own")
		c.report(p, ctr.Name, CodePodTotalUnknown,
			"the runtime and the pod's cgroup do not report the total of the pod, so the CPUs of the container may be the CPUs of the whole pod; "+
				"it runs in the shared pool; create the pod again with a runtime that reports the resources of sandboxes")
	}
}

// asks reports whether a container is live and known, and has a CPU request.
func (ctr *Container) asks() bool {
	return ctr.Kind == App && ctr.Foreign == nil && ctr.State != Exited && ctr.Resources.Shares > noRequest
}

// requests are numbers of live containers by their resources.
type requests struct {
	totalKnown bool // pod's total is known
	// asking have more than the shares of no request. full have the resources of the pod.
	// mismatched have a quota that does not follow from their shares, and no CDI devices. The CPUs of
	// ResourceClaims are in the quota, and not in the shares (generateLinuxContainerResources in
	// k8s.io/kubernetes 1.37.0, gate DRANodeAllocatableResources).
	asking, full, mismatched int
	shares                   uint64 // sum of their shares
}

func countRequests(p *Pod) requests {
	var n requests
	_, n.totalKnown = p.Resources.WholeCPUs()
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		ctr := &p.Containers[i]
		if ctr.Foreign != nil || ctr.State == Exited || ctr.Resources.Shares == 0 {
			continue
		}
		if ctr.asks() {
			n.asking++
			n.shares += min(ctr.Resources.Shares, sharesCap)
		}
		if n.totalKnown && ctr.Resources.isFull(p.Resources) {
			n.full++
		}
		if ctr.Resources.mismatches() && !ctr.Devices {
			n.mismatched++
		}
	}
	return n
}

// isPodLevel reports whether the containers have resources that only pod-level resources
// explain. One container alone can have more than the total: an older kubelet resizes a
// container and leaves the sandbox as it is.
func (n requests) isPodLevel(p *Pod) bool {
	return n.full >= 2 || n.full == 1 && n.asking >= 2 || n.mismatched > 0 ||
		n.asking >= 2 && p.Resources.Shares < sharesCap && n.shares > p.Resources.Shares
}

// isFull reports whether r are the resources of a container without a request in a pod with
// this total. Shares end at 256 CPUs: there the quotas decide.
func (r Resources) isFull(total Resources) bool {
	if total.Shares < sharesCap {
		return r.Shares >= total.Shares
	}
	milli, known := r.quotaMilli()
	of, ofKnown := total.quotaMilli()
	return r.Shares >= sharesCap && known && ofKnown && milli >= of
}

// isPart reports whether r are whole CPUs below the pod's total, with a quota that follows
// from the shares.
func (r Resources) isPart(total Resources) bool {
	return r.ExclusiveCPUs() > 0 && !r.isFull(total) && !r.mismatches()
}

// wholeTotal returns the total of a pod in CPUs, and 0 if it is not a whole number.
func (r Resources) wholeTotal() int {
	if r.Shares >= sharesCap && r.Period > 0 && r.Quota%r.Period != 0 {
		return 0
	}
	return r.ExclusiveCPUs()
}

// quotaMilli returns the quota in thousandths of a CPU, rounded down, and whether there is one.
func (r Resources) quotaMilli() (milli int64, known bool) {
	if r.Quota <= 0 || r.Period <= 0 {
		return 0, false
	}
	return min(r.Quota/r.Period, mostCPUs)*1000 + r.Quota%r.Period*1000/max(r.Period, 1), true
}

// leastQuota is the least quota that the kubelet sets, in microseconds
// (k8s.io/kubernetes 1.37.0, pkg/kubelet/cm/helpers_linux.go, MilliCPUToQuota).
const leastQuota = 1000

// mismatches reports whether the quota belongs to no request that has these shares. The
// runtime's quota is exact to 1 microsecond: a difference of 1 thousandth of a CPU counts as
// none. An unknown or removed quota never mismatches.
func (r Resources) mismatches() bool {
	milli, known := r.quotaMilli()
	if !known || r.Quota <= leastQuota || r.Shares == 0 {
		return false
	}
	least := (int64(min(r.Shares, sharesCap))*1000 + sharesPerCPU - 1) / sharesPerCPU
	most := (int64(min(r.Shares, sharesCap)+1)*1000+sharesPerCPU-1)/sharesPerCPU - 1
	if r.Shares <= noRequest {
		least = 0
	}
	return milli+1 < least || r.Shares < sharesCap && milli > most+1
}
