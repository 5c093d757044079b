package pools

import (
	"fmt"
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// placer builds a plan from verdicts and from the CPUs of the demands.
type placer struct {
	pools *Pools
	// free are the guaranteed CPUs that have no owner in the end. taken are all other
	// guaranteed CPUs, and the resting ones.
	free, taken cpuset.Set
	// ofPartition are the CPUs of each partition, and ofShared the CPUs of the shared
	// pool, without taken.
	ofPartition []cpuset.Set
	ofShared    cpuset.Set
	problems    []Problem
	// room has the capacity for all placements of the plan.
	room   []Placement
	claims []ClaimPlan
	bound  *topology.Topology // nil when memory is not bound
}

// newPlacer returns a placer for a plan that has Free, Resting and Claims.
func newPlacer(in *Input, plan *Plan, containers int) *placer {
	b := &placer{pools: &in.Pools, free: plan.Free, claims: plan.Claims, room: make([]Placement, 0, containers)}
	b.taken = in.Pools.Guaranteed.Difference(plan.Free).Union(plan.Resting)
	b.ofShared = in.Pools.Shared.Difference(b.taken)
	if in.Pools.Claims.Lend {
		lent := in.Pools.Claims.CPUs
		for i := range plan.Claims {
			lent = lent.Difference(plan.Claims[i].CPUs)
		}
		b.ofShared = b.ofShared.Union(lent)
	}
	for _, p := range in.Pools.Partitions {
		b.ofPartition = append(b.ofPartition, p.CPUs.Difference(b.taken))
	}
	if in.Pools.BindMemory {
		b.bound = in.Machine.Topology()
	}
	return b
}

// partition returns the current CPUs of the partition of a workload type.
func (b *placer) partition(typ string) cpuset.Set {
	for i, p := range b.pools.Partitions {
		if p.Type == typ {
			return b.ofPartition[i]
		}
	}
	return cpuset.Set{}
}

func (b *placer) report(p *Pod, container string, r Reason) {
	b.problems = append(b.problems, p.problem(container, r))
}

func (b *placer) pod(p *Pod, of class, demands []demand) PodPlan {
	plan := PodPlan{UID: p.UID, Namespace: p.Namespace, Name: p.Name}
	first := len(b.room)
	var set *demand // of a pod with pod-level resources
	if len(demands) == 1 && demands[0].set != nil {
		set = &demands[0]
	}
	for i := range p.Containers {
		ctr, v := &p.Containers[i], &of.verdicts[i]
		b.room = append(b.room, Placement{ID: ctr.ID, Name: ctr.Name, Kind: ctr.Kind, State: ctr.State, Shares: v.shares, Limit: v.limit})
		at := &b.room[len(b.room)-1]
		switch v.pool {
		case Management:
			at.Pool, at.Type, at.Reason = Management, v.typ, v.reason
			if at.Type == "" {
				at.Type = of.partition.Type
			}
			at.CPUs = b.partition(at.Type)
		case Guaranteed:
			switch {
			case v.podPool:
				b.inPodPool(p, at, set, v)
			case set != nil:
				b.guaranteed(at, demandOf(set.set.parts, ctr.Name), v)
			default:
				b.guaranteed(at, demandOf(demands, ctr.Name), v)
			}
		case ofClaims:
			b.onClaims(p, at)
		case Other:
			at.Pool, at.CPUs, at.Reason = Other, ctr.Foreign.CPUs, v.reason
		default:
			at.Pool, at.CPUs, at.Reason = Shared, b.ofShared, v.reason
		}
		if at.Pool == Guaranteed {
			at.Mems = b.memoryOf(at.CPUs)
			at.Unlimited = (at.Exclusive || v.pool == ofClaims || hasQuotaOf(ctr.Resources, set.want)) && !p.Unread && !KeepsQuota(p.Annotations, at.Name)
			if at.Exclusive && v.mixed {
				b.mix(at)
			}
		}
		at.Unread = p.Unread && at.Pool != Guaranteed && at.Pool != Other
		if ctr.Kind == App && p.QoS == QoSGuaranteed && !at.Unlimited && at.Pool != Other {
			at.Quota, at.Period = quotaOf(ctr.Resources)
		}
		if at.Unlimited && at.State != Exited {
			plan.Unlimited = true
			plan.Reason = Reason{CodeUnlimited, "container " + clip(at.Name) + " has exclusive CPUs, which bound it without a quota"}
			if at.InPodPool() && v.pool != ofClaims {
				plan.Reason.Text = "container " + clip(at.Name) + " runs on the CPUs of its pod, which bound it without a quota"
			}
		}
	}
	plan.Containers = b.room[first:len(b.room):len(b.room)]
	if p.QoS == QoSGuaranteed && !plan.Unlimited {
		plan.Quota, plan.Period = quotaOf(p.Resources)
	}
	if shares, annotated := podShares(p, of.verdicts); annotated {
		plan.Shares = shares
		plan.Reason = Reason{CodeAnnotatedShares, strconv.FormatUint(shares, 10) + " shares: the sum of the containers' shares, as annotated"}
	}
	for i := range demands {
		b.reportDemand(p, &demands[i])
	}
	if set != nil {
		for i := range set.set.parts {
			b.reportDemand(p, &set.set.parts[i])
		}
	}
	return plan
}

// guaranteed places a container that requests whole CPUs.
func (b *placer) guaranteed(at *Placement, c *demand, v *verdict) {
	if c == nil || c.cpus.IsEmpty() {
		at.Pool, at.CPUs = Shared, b.ofShared
		switch {
		case at.State == Exited:
			at.Reason = Reason{CodeExited, "has exited and holds no CPUs"}
		case v.want == 0:
			at.Reason = v.reason
		case v.waiting:
			at.Reason = Reason{CodeWaiting, v.reason.Text + ", as soon as it is known where its devices and memory are"}
		case c == nil || c.refused == nil:
			at.Reason = Reason{CodeSuperseded, "a newer container of this name requests no whole CPUs"}
		default:
			at.Reason, at.Refused = b.refused(c), c.refused
		}
		return
	}
	at.Pool, at.CPUs, at.Exclusive = Guaranteed, c.cpus, true
	switch {
	case c.unread:
		at.Reason = Reason{CodeUnread, v.reason.Text + "; its CPUs are recorded"}
	case at.State == Exited:
		at.Reason = Reason{CodeHeld, "has exited; its CPUs are held for its restart"}
	case c.cpus.Len() < c.want:
		at.Reason, at.Short = b.short(c), c.refused
	case v.want == c.want:
		at.Reason = v.reason
	default:
		at.Reason = Reason{CodeExclusive, countBefore(c.want, "whole CPU", " in a Guaranteed pod")}
	}
}

func (b *placer) reportDemand(p *Pod, c *demand) {
	for _, r := range c.anomalies() {
		b.report(p, c.key.Container, r)
	}
	if c.missing > 0 {
		b.report(p, "", Reason{CodeNotReserved,
			"the pod's total cannot be reserved completely for containers that start later; they may find too few CPUs"})
	}
	switch {
	case !c.lacks():
	case c.cpus.IsEmpty():
		b.report(p, c.key.Container, b.refused(c))
	default:
		b.report(p, c.key.Container, b.short(c))
	}
}

func overlap() Reason {
	return Reason{CodeOverlap, "some of its recorded CPUs are recorded for another owner too, which comes before it and keeps them"}
}

func (b *placer) refused(c *demand) Reason {
	until := " until enough CPUs are free"
	if code := c.refused.Code; code != allocate.TooFewFree && code != floorReached && code != PodPoolEmpty {
		until = fmt.Sprintf(" (%d of %d CPUs of the guaranteed pool are free)", b.free.Len(), b.pools.Guaranteed.Len())
	}
	return Reason{CodeRefused, fmt.Sprintf("requests %s, but %s; runs in the shared pool%s", count(c.want, "whole CPU"), c.refused.Why, until)}
}

func (b *placer) short(c *demand) Reason {
	return Reason{CodeShort, fmt.Sprintf("has %d of %s, but %s; gets more when some are free", c.cpus.Len(), count(c.want, "whole CPU"), c.refused.Why)}
}

// quotaOf returns the quota of a container or pod, 0 without a quota.
func quotaOf(r Resources) (quota, period int64) {
	if r.Quota <= 0 || r.Period <= 0 {
		return 0, 0
	}
	return r.Quota, r.Period
}

func demandOf(demands []demand, name string) *demand {
	for i := range demands {
		if demands[i].key.Container == name {
			return &demands[i]
		}
	}
	return nil
}

// podShares sums up the shares of the containers of a pod that have not exited,
// and reports whether an annotation is part of the sum. Without an annotation the
// kubelet computes the same sum.
func podShares(p *Pod, verdicts []verdict) (shares uint64, annotated bool) {
	for i := range p.Containers {
		ctr, v := &p.Containers[i], verdicts[i]
		switch {
		case ctr.Kind == Infra || ctr.State == Exited:
		case v.shares > 0:
			shares += v.shares
			annotated = true
		default:
			shares += min(ctr.Resources.Shares, workload.MaxShares)
		}
	}
	return min(max(shares, workload.MinShares), workload.MaxShares), annotated
}

// nearestMemory returns the IDs of the nodes whose memory is nearest to the node with index i.
// These are the node itself and nodes without CPUs that are as near: with numa=fake, several
// nodes have the memory of the same CPUs. If the node has no memory, it is the nearest node with
// memory, the lowest of equal ones. The result is empty if no node is known to have memory.
func nearestMemory(t *topology.Topology, i int) cpuset.Set {
	from := t.Nodes[i]
	distance := func(j int) int {
		if j < len(from.Distances) {
			return from.Distances[j]
		}
		return 0
	}
	best := none
	for j, node := range t.Nodes {
		if node.HasMemory && (best == none || j == i || best != i && distance(j) < distance(best)) {
			best = j
		}
	}
	if best == none {
		return cpuset.Set{}
	}
	near := cpuset.Of(t.Nodes[best].ID)
	for j, node := range t.Nodes {
		if best == i && j != i && node.HasMemory && node.CPUs.IsEmpty() && j < len(from.Distances) && distance(j) <= distance(i) {
			near = near.Union(cpuset.Of(node.ID))
		}
	}
	return near
}

// memoryOf returns the IDs of the NUMA nodes for the memory of an owner with the CPUs. The set is
// empty if memory is not bound.
func (b *placer) memoryOf(cpus cpuset.Set) (ids cpuset.Set) {
	if b.bound == nil {
		return ids
	}
	for i := range b.bound.Nodes {
		if b.bound.Nodes[i].CPUs.Overlaps(cpus) {
			ids = ids.Union(nearestMemory(b.bound, i))
		}
	}
	return ids
}

// units places the systemd units of the configuration; demands are theirs.
func (b *placer) units(demands []demand) []UnitPlan {
	var plans []UnitPlan
	for _, u := range b.pools.Units {
		at := UnitPlan{Name: u.Name}
		switch {
		case u.CPUs > 0:
			b.exclusiveUnit(&at, &demands[0])
			demands = demands[1:]
		case u.Pool == string(Shared):
			at.Pool, at.CPUs = Shared, b.ofShared
			at.Reason = Reason{CodeUnit, "the configuration puts the unit there"}
		default:
			at.Pool, at.Type, at.CPUs = Management, u.Pool, b.partition(u.Pool)
			at.Reason = Reason{CodeUnit, "the configuration puts the unit there"}
		}
		plans = append(plans, at)
	}
	return plans
}

func (b *placer) exclusiveUnit(at *UnitPlan, c *demand) {
	if c.cpus.IsEmpty() {
		at.Pool, at.CPUs, at.Refused, at.Reason = Shared, b.ofShared, c.refused, b.refused(c)
	} else {
		at.Pool, at.CPUs, at.Exclusive, at.Mems = Guaranteed, c.cpus, true, b.memoryOf(c.cpus)
		at.Reason = Reason{CodeUnit, count(c.want, "whole CPU") + ", as configured"}
		if c.lacks() {
			at.Reason = b.short(c)
		}
	}
	problems := c.anomalies()
	if c.lacks() {
		problems = append(problems, at.Reason)
	}
	for _, r := range problems {
		b.problems = append(b.problems, Problem{Unit: at.Name, Reason: r})
	}
}
