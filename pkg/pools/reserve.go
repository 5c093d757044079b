package pools

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// reservable returns the part of a Guaranteed pod's total that its live containers do not
// request. It is zero if the total is unknown.
//
// Fractions of CPUs count if the requests add up to the total, or if the pod is settled.
// The request of an init container is not added to the requests of later containers. A
// settled pod gets no more than it has (frozen), but keeps that. CRI does not report
// whether a running container is an init container, and the scheduler allocates the
// total to no other pod.
func reservable(p *Pod, verdicts []verdict) remainder {
	total, known := p.Resources.WholeCPUs()
	if !known || slices.ContainsFunc(p.Containers, func(ctr Container) bool {
		return ctr.Kind == App && ctr.State != Exited && ctr.Resources.Shares == 0
	}) {
		return remainder{} // this container may request the whole total
	}
	left, fractions := total*sharesPerCPU, 0
	switch r := p.Resources; {
	case r.Shares < sharesCap:
		left = int(r.Shares) // with the fraction, which is requested too
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

// remainder is what remains of the total of a pod, in whole CPUs. The number sure also
// remains if no container is an init container.
type remainder struct {
	cpus, sure int
	frozen     bool // pod probably has all its containers
}

// sandboxAge returns the creation time of a pod's pause container; 0 if unknown.
func sandboxAge(p *Pod) int64 {
	if len(p.Containers) > 0 && p.Containers[0].Kind == Infra {
		return p.Containers[0].CreatedAt
	}
	return 0
}

// asked returns a container's part of the pod's total, in shares.
func asked(ctr *Container, v verdict) int {
	switch {
	case ctr.State == Exited || ctr.Waiting || ctr.Resources.Shares == noRequest:
		return 0
	case v.pool == Guaranteed:
		return v.want * sharesPerCPU
	}
	return int(min(ctr.Resources.Shares, sharesCap))
}

// reserveOf returns the demand among siblings for the CPUs reserved for the pod,
// or nil.
func reserveOf(siblings []demand) *demand {
	if len(siblings) > 0 && siblings[0].isReserve() {
		return &siblings[0]
	}
	return nil
}

// due is how many CPUs the reserve of a pod should have. CPUs of exited containers count
// for containers that come later, and so do the CPUs of a waiting container.
func (a *assigner) due(c *demand, siblings []demand) int {
	due := a.owed(c, siblings)
	if c.frozen {
		due = min(due, c.cpus.Len())
	}
	return due
}

// owed is due without regard to frozen.
func (a *assigner) owed(c *demand, siblings []demand) int {
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
	due -= max(due, 0) % a.unit(c) // no owner can use the remainder
	return max(due, 0)
}

// reserve takes the CPUs that the pod's total leaves for later containers: all of them,
// or as many as fit the options.
func (a *assigner) reserve(i int) bool {
	c := &a.demands[i]
	if !c.isReserve() {
		return false
	}
	siblings := a.siblings(i)
	lack := a.due(c, siblings) - c.cpus.Len()
	if lack <= 0 || lack > a.offered(c) {
		return false
	}
	r := allocate.Request{CPUs: lack, Have: c.cpus, Near: held(siblings).Difference(c.cpus), Options: *c.options}
	// Each container is placed separately in the end, so the topology policy need
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

// unit returns the granularity of a demand: numbers of CPUs are multiples of it.
func (a *assigner) unit(c *demand) int {
	if c.options.FullPCPUsOnly {
		return a.machine.Group()
	}
	return 1
}

// together takes CPUs for all containers of a pod that have no CPUs yet, and for its
// reserve, at once, so that they lie together. It returns false if that is impossible;
// then the containers are tried one by one.
func (a *assigner) together(i int) bool {
	siblings := a.siblings(i)
	if a.demands[i].options.OneOwnerPerCore {
		return false // the number of cores depends on the owners of their threads
	}
	reserve := reserveOf(siblings)
	total := 0
	for j := range siblings {
		c := &siblings[j]
		switch {
		case c == reserve:
			total += a.due(c, siblings)
		case !c.cpus.IsEmpty() && !c.live, !c.nodes.Equal(a.demands[i].nodes):
			return false
		case c.lacks() && c.cpus.IsEmpty():
			total += c.want
		}
	}
	if total == a.demands[i].want || total > a.offered(&a.demands[i]) || reserve != nil && !reserve.cpus.IsEmpty() {
		return false
	}
	near, nodes := held(siblings), a.demands[i].nodes
	all, refusal := a.fresh(&a.demands[i], allocate.Request{CPUs: total, Near: near, Nodes: nodes, Options: *a.demands[i].options})
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
func (a *assigner) divide(siblings []demand, all, near cpuset.Set) ([]cpuset.Set, bool) {
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
		i := slices.IndexFunc(siblings, func(c demand) bool { return c.isReserve() })
		if i < 0 {
			return nil, false
		}
		parts[i] = all
	}
	return parts, true
}

func held(demands []demand) cpuset.Set {
	var all cpuset.Set
	for i := range demands {
		all = all.Union(demands[i].cpus)
	}
	return all
}
