package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// reservable says what of a Guaranteed pod's total its live containers do not ask
// for. It is nothing when the total is not known.
//
// Fractions of CPUs count when they and the rest add up to the total, or when the
// pod is settled: those of an init container are not asked for in addition to what
// comes after it. A settled pod gets no more than it has (frozen), but keeps that:
// whether a container that still runs is an init container nobody tells, and the
// scheduler gives the total to nobody else.
func reservable(p *Pod, verdicts []verdict) remainder {
	total, known := p.Resources.WholeCPUs()
	if !known || slices.ContainsFunc(p.Containers, func(ctr Container) bool {
		return ctr.Kind == App && ctr.State != Exited && ctr.Resources.Shares == 0
	}) {
		return remainder{} // what that one asks for may be all
	}
	left, fractions := total*sharesPerCPU, 0
	switch r := p.Resources; {
	case r.Shares < sharesCap:
		left = int(r.Shares) // with the fraction, which is asked for too
	case r.Quota%r.Period != 0:
		left += sharesPerCPU - 1
	}
	for i, next := p.newest(0); i >= 0; i, next = p.newest(next) {
		n := asked(&p.Containers[i], verdicts[i])
		if left -= n; verdicts[i].pool != Guaranteed && verdicts[i].pool != Other {
			fractions += n
		}
	}
	waits := func(ctr Container) bool { return ctr.Waiting && ctr.State != Exited }
	r := remainder{frozen: p.Settled && !slices.ContainsFunc(p.Containers, waits), sure: max(left/sharesPerCPU, 0)}
	r.cpus = r.sure
	if left >= len(p.Containers) && !p.Settled { // shares are rounded down
		r.cpus = max((left+fractions)/sharesPerCPU, 0)
	}
	return r
}

// remainder is what remains of the total of a pod, in whole CPUs. As many as sure
// says remain also if no container is an init container.
type remainder struct {
	cpus, sure int
	frozen     bool // pod has all its containers, as far as one can tell
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
	case ctr.State == Exited || ctr.Waiting || ctr.Resources.Shares == noRequest:
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
func (a *assigner) due(c *claim, siblings []claim) int {
	due := a.owed(c, siblings)
	if c.frozen {
		due = min(due, c.cpus.Len())
	}
	return due
}

// owed is due, also where the reserve gets no more.
func (a *assigner) owed(c *claim, siblings []claim) int {
	left := leftBy(siblings)
	if c.options.OneOwnerPerCore {
		left = a.oneOfEach(left) // a core is for one owner
	}
	due := c.want - left.Len()
	for i := range siblings {
		if siblings[i].waiting && siblings[i].live {
			due -= siblings[i].cpus.Len()
		}
	}
	due -= max(due, 0) % a.unit(c) // what remains is of no use to anybody
	return max(due, 0)
}

// release gives back what a pod's reserve has above its due, as far as that is
// known.
func (a *assigner) release(i int) {
	c := &a.claims[i]
	if !c.isReserve() || c.unread {
		return
	}
	if due := a.due(c, a.siblings(i)); c.cpus.Len() > due {
		a.give(c, a.best(c, due))
	}
}

// reserve takes what the pod's total leaves for containers that are to come: all
// of it, or when there is enough in an unfit form, as much as is fit.
func (a *assigner) reserve(i int) bool {
	c := &a.claims[i]
	if !c.isReserve() {
		return false
	}
	siblings := a.siblings(i)
	lack := a.due(c, siblings) - c.cpus.Len()
	if lack <= 0 || lack > a.offered(c) {
		return false
	}
	r := allocate.Request{CPUs: lack, Have: c.cpus, Near: held(siblings).Difference(c.cpus), Options: *c.options}
	// Each container is placed for itself in the end, so the topology policy need
	// not hold for all of them together.
	anywhere := r
	anywhere.Options.TopologyPolicy = allocate.None
	takes := func(r allocate.Request, from func(allocate.Request) (cpuset.Set, *allocate.Refusal)) bool {
		got, refusal := from(r)
		if refusal != nil {
			return false
		}
		return a.allowed(siblings, func() { a.have(c, got) })
	}
	packed := func(r allocate.Request) (cpuset.Set, *allocate.Refusal) { return a.fresh(c, r) }
	if c.options.OneOwnerPerCore && !c.options.FullPCPUsOnly &&
		(takes(r, a.spread) || takes(anywhere, a.spread)) {
		return true
	}
	if takes(r, packed) {
		return true
	}
	for step := a.unit(c); anywhere.CPUs > 0; anywhere.CPUs -= step {
		if takes(anywhere, packed) {
			return true
		}
	}
	return false
}

// unit is what numbers of CPUs of a claim are multiples of.
func (a *assigner) unit(c *claim) int {
	if c.options.FullPCPUsOnly {
		return a.machine.Group()
	}
	return 1
}

// together takes CPUs for all containers of a pod that have none yet, and for its
// reserve, at once, so that they lie together. It is false when that cannot be
// had; the containers are tried one by one then.
func (a *assigner) together(i int) bool {
	siblings := a.siblings(i)
	if a.claims[i].options.OneOwnerPerCore {
		return false // how many cores that takes depends on who has what of them
	}
	reserve := reserveOf(siblings)
	total := 0
	for j := range siblings {
		c := &siblings[j]
		switch {
		case c == reserve:
			total += a.due(c, siblings)
		case !c.cpus.IsEmpty() && !c.live, !c.nodes.Equal(a.claims[i].nodes):
			return false
		case c.lacks() && c.cpus.IsEmpty():
			total += c.want
		}
	}
	if total == a.claims[i].want || total > a.offered(&a.claims[i]) || reserve != nil && !reserve.cpus.IsEmpty() {
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
	rest := a.from(all)
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
