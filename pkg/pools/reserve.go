package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// reservable is the number of whole CPUs of a Guaranteed pod's total that its
// live containers do not ask for: for those that the kubelet has not created yet.
// It is 0 when the total is not known, and when no more containers are to come.
func reservable(p *Pod, verdicts []verdict) int {
	total, known := p.Resources.WholeCPUs()
	waits := func(ctr Container) bool { return ctr.Waiting && ctr.State != Exited }
	if !known || p.Settled && !slices.ContainsFunc(p.Containers, waits) {
		return 0
	}
	if slices.ContainsFunc(p.Containers, func(ctr Container) bool {
		return ctr.Kind == App && ctr.State != Exited && ctr.Resources.Shares == 0
	}) {
		return 0 // what that one asks for may be all
	}
	left := total * sharesPerCPU
	if p.Resources.Shares < sharesCap {
		left = int(p.Resources.Shares) // with the fraction, which is asked for too
	}
	for i := 0; i < len(p.Containers); {
		end := i + 1
		for end < len(p.Containers) && p.Containers[end].Name == p.Containers[i].Name && p.Containers[end].Kind == p.Containers[i].Kind {
			end++
		}
		newest := i + newestOf(p.Containers[i:end])
		left -= asked(&p.Containers[newest], verdicts[newest])
		i = end
	}
	return max(left/sharesPerCPU, 0)
}

// sandboxAge is when a pod began, as far as its pause container tells.
func sandboxAge(p *Pod) int64 {
	if len(p.Containers) > 0 && p.Containers[0].Kind == Infra {
		return p.Containers[0].CreatedAt
	}
	return 0
}

// asked is the part of the pod's total, in shares, that is a container's own.
func asked(ctr *Container, v verdict) int {
	switch {
	case ctr.Kind == Infra || ctr.State == Exited || ctr.Waiting || ctr.Resources.Shares == noRequest:
		return 0
	case v.pool == Guaranteed:
		return v.want * sharesPerCPU
	}
	return int(min(ctr.Resources.Shares, sharesCap))
}

// reserveOf returns the claim among siblings for what is reserved for the pod,
// nil when there is none.
func reserveOf(siblings []claim) *claim {
	if len(siblings) > 0 && siblings[0].isReserve() {
		return &siblings[0]
	}
	return nil
}

// due is how many CPUs the reserve of a pod should have: what is left by exited
// containers counts for those that come, and so does what a waiting one has.
func (c *claim) due(siblings []claim) int {
	due := c.want - leftBy(siblings).Len()
	for i := range siblings {
		if siblings[i].waiting && siblings[i].live {
			due -= siblings[i].cpus.Len()
		}
	}
	return max(due, 0)
}

// release gives back what a pod's reserve has above its due, as far as that is
// known.
func (a *assigner) release(i int) {
	c := &a.claims[i]
	if c.unread {
		return
	}
	if due := c.due(a.siblings(i)); c.isReserve() && c.cpus.Len() > due {
		a.give(c, a.best(c, due))
	}
}

// reserve takes what the pod's total leaves for containers that are to come: all
// of it or nothing.
func (a *assigner) reserve(i int) bool {
	c := &a.claims[i]
	siblings := a.siblings(i)
	lack := c.due(siblings) - c.cpus.Len()
	if !c.isReserve() || lack <= 0 {
		return false
	}
	got, refusal := a.fresh(c, allocate.Request{CPUs: lack, Have: c.cpus, Near: held(siblings).Difference(c.cpus), Options: *c.options})
	if refusal != nil {
		return false
	}
	a.have(c, got)
	return true
}

// together takes CPUs for all containers of a pod that have none yet, and for its
// reserve, at once, so that they lie together. It is false when that cannot be
// had; the containers are tried one by one then.
func (a *assigner) together(i int) bool {
	siblings := a.siblings(i)
	reserve := reserveOf(siblings)
	members, total := 0, 0
	for j := range siblings {
		c := &siblings[j]
		switch {
		case c == reserve:
			total += c.due(siblings)
		case !c.cpus.IsEmpty() && !c.live, !c.nodes.Equal(a.claims[i].nodes):
			return false
		case c.lacks() && c.cpus.IsEmpty():
			members++
			total += c.want
		}
	}
	if total == a.claims[i].want || reserve != nil && !reserve.cpus.IsEmpty() {
		return false
	}
	near, nodes := held(siblings), a.claims[i].nodes
	all, refusal := a.fresh(&a.claims[i], allocate.Request{CPUs: total, Near: near, Nodes: nodes, Options: *a.claims[i].options})
	if refusal != nil {
		return false
	}
	parts, ok := a.divide(siblings, all, near)
	if !ok {
		a.supply = nil // it has given all away
		return false
	}
	for j := range siblings {
		if !parts[j].IsEmpty() {
			a.have(&siblings[j], parts[j])
			siblings[j].refused = nil
		}
	}
	return true
}

// divide gives each of the siblings that have nothing their part of all, the
// older first, and the rest to the reserve.
func (a *assigner) divide(siblings []claim, all, near cpuset.Set) ([]cpuset.Set, bool) {
	parts := make([]cpuset.Set, len(siblings))
	rest := a.machine.Supply(all)
	for _, j := range byAge(siblings) {
		c := &siblings[j]
		if c.isReserve() || !c.lacks() || !c.cpus.IsEmpty() {
			continue
		}
		part, refusal := take(rest, allocate.Request{CPUs: c.want, Near: near, Nodes: c.nodes, Options: *c.options})
		if refusal != nil {
			return nil, false
		}
		parts[j] = part
		all, near = all.Difference(part), near.Union(part)
	}
	if !all.IsEmpty() {
		i := slices.IndexFunc(siblings, func(c claim) bool { return c.isReserve() })
		if i < 0 {
			return nil, false
		}
		parts[i] = all
	}
	return parts, true
}

// held are the CPUs of claims together.
func held(claims []claim) cpuset.Set {
	var all cpuset.Set
	for i := range claims {
		all = all.Union(claims[i].cpus)
	}
	return all
}
