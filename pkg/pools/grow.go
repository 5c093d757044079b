package pools

import (
	"errors"
	"fmt"
	"math"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// sources are the sources of a demand's new CPUs, with the number from each. A demand with
// one-owner-per-core can also get the idle siblings in a source.
type sources struct {
	left, reserved           cpuset.Set
	reuse, fromReserve, anew int
}

func (s *sources) sum() int { return s.reuse + s.fromReserve + s.anew }

// owner without CPUs gets all that it requests or none; an owner that has some
// gets as many as possible. With reserved set it serves only pods that have CPUs for the
// demand already; a demand that needs more also gets the rest.
func (a *assigner) grow(i int, reserved bool) bool {
	c := &a.demands[i]
	if !c.lacks() {
		return false
	}
	siblings := a.siblings(i)
	s := sources{left: leftBefore(siblings, c.createdAt)}
	if r := reserveOf(siblings); r != nil {
		s.reserved = r.cpus
	}
	s.left, s.reserved = s.left.Union(a.idleSiblings(c, s.left)), s.reserved.Union(a.idleSiblings(c, s.reserved))
	lack, most := c.want-c.cpus.Len(), a.offered(c)
	if reserved {
		if s.reserved.IsEmpty() {
			most = 0
			if s.left.IsEmpty() {
				return false
			}
		}
	} else if c.cpus.IsEmpty() && len(siblings) > 1 && a.together(i) {
		return true
	}
	s.reuse = max(a.excess(c, siblings, lack), 0)
	if !reserved {
		s.reuse = max(s.reuse, lack-s.reserved.Len()-most)
	}
	s.reuse = min(s.reuse, s.left.Len(), lack)
	s.fromReserve = min(s.reserved.Len(), lack-s.reuse)
	s.anew = lack - s.reuse - s.fromReserve
	if s.anew > most && c.cpus.IsEmpty() {
		if !reserved {
			c.refused = a.never(c, lack)
		}
		return false
	}
	if s.anew = min(s.anew, most); s.sum() == 0 && !reserved {
		c.refused = a.tooMany(lack)
	}
	for ; s.sum() > 0; s.anew-- {
		refusal := a.draw(c, siblings, s)
		if refusal == nil {
			c.refused = nil
			return true
		}
		if !reserved {
			c.refused = refusal
		}
		if s.anew == 0 || c.cpus.IsEmpty() {
			break
		}
	}
	return false
}

// draw takes CPUs from the sources of demand c. It tries each source separately,
// and all together if that is refused or hints point elsewhere.
func (a *assigner) draw(c *demand, siblings []demand, s sources) *allocate.Refusal {
	request := allocate.Request{Near: held(siblings).Difference(c.cpus), Nodes: c.nodes, Options: *c.options, Pool: a.pools.Guaranteed}
	if s.fromReserve == 0 || c.nodes.IsEmpty() {
		got, refusal := a.piecewise(c, request, s)
		if refusal == nil && !a.commit(c, siblings, s, got) {
			refusal = a.tooMany(s.sum())
		}
		if refusal == nil || s.reuse+s.fromReserve == 0 {
			return refusal
		}
	}
	all := a.free.Union(s.reserved, a.idleSiblings(c, c.cpus))
	if s.reuse > 0 {
		all = all.Union(s.left)
	}
	request.CPUs, request.Have = s.sum(), c.cpus
	got, refusal := take(a.from(all), request)
	if refusal != nil {
		return refusal
	}
	if !a.commit(c, siblings, s, got) {
		return a.tooMany(s.sum())
	}
	a.supply = nil
	return nil
}

// piecewise takes the number of CPUs in s from each source.
func (a *assigner) piecewise(c *demand, r allocate.Request, s sources) (cpuset.Set, *allocate.Refusal) {
	var got, part cpuset.Set
	var refusal *allocate.Refusal
	for _, from := range []struct {
		cpus cpuset.Set
		n    int
	}{{s.left, s.reuse}, {s.reserved, s.fromReserve}} {
		if from.n == 0 {
			continue
		}
		r.CPUs, r.Have = from.n, c.cpus.Union(got)
		if part, refusal = take(a.from(from.cpus), r); refusal != nil {
			return got, refusal
		}
		got = got.Union(part)
	}
	if s.anew > 0 {
		r.CPUs, r.Have = s.anew, c.cpus.Union(got)
		if part, refusal = a.fresh(c, r); refusal != nil {
			return got, refusal
		}
		got = got.Union(part)
	}
	return got, nil
}

// fresh takes CPUs without an owner, and idle siblings that only c may have.
func (a *assigner) fresh(c *demand, r allocate.Request) (cpuset.Set, *allocate.Refusal) {
	if r.CPUs > a.offered(c) {
		return cpuset.Set{}, a.tooMany(r.CPUs)
	}
	own := a.idleSiblings(c, c.cpus)
	switch {
	case a.room() <= 0:
		return take(a.from(own), r)
	case !own.IsEmpty():
		a.supply = nil // the supply does not count these CPUs
		return take(a.from(a.free.Union(own)), r)
	case a.supply == nil:
		a.supply = a.machine.Supply(a.free)
	}
	return take(a.supply, r)
}

// commit assigns got to c, and frees its pod's other CPUs for it. If that leaves too few
// CPUs to the shared pool, it changes nothing and returns false.
func (a *assigner) commit(c *demand, siblings []demand, s sources, got cpuset.Set) bool {
	return a.allowed(siblings, func() {
		taken := got
		if c.options.OneOwnerPerCore {
			taken = a.coresOf(got) // the pod's other owners, too, have no part of these
		}
		unused := s.left.Difference(taken).Difference(a.idle).Take(max(s.reuse-s.left.Intersection(got).Len(), 0))
		releaseInactive(siblings, taken.Union(unused))
		if r := reserveOf(siblings); r != nil && s.fromReserve > 0 {
			rest := r.cpus.Difference(taken)
			unwanted := rest.Take(max(s.fromReserve-s.reserved.Intersection(got).Len(), 0))
			r.cpus = rest.Difference(unwanted)
			unused = unused.Union(unwanted)
		}
		if !unused.IsEmpty() {
			a.free = a.free.Union(unused)
			a.supply = nil
		}
		a.have(c, got)
		if a.alone && s.reuse+s.fromReserve > 0 {
			a.recount() // CPUs of an owner may become idle siblings, and the reverse
		}
	})
}

// never refuses n CPUs that are not free. If an empty machine could not provide them
// either, the refusal states that.
func (a *assigner) never(c *demand, n int) *allocate.Refusal {
	if c.options.FullPCPUsOnly {
		_, refusal := take(a.from(cpuset.Set{}), allocate.Request{CPUs: n, Have: c.cpus, Options: *c.options})
		if refusal != nil && refusal.Code != allocate.TooFewFree {
			refusal.Free = max(a.room(), 0)
			return refusal
		}
	}
	return a.tooMany(n)
}

// tooMany refuses n CPUs because too few are free.
func (a *assigner) tooMany(n int) *allocate.Refusal {
	free := max(a.room(), 0)
	if free == a.free.Len() {
		return &allocate.Refusal{Asked: n, Free: free, Code: allocate.TooFewFree, Why: fmt.Sprintf("%d of %d CPUs of the guaranteed pool are free", free, a.pools.Guaranteed.Len())}
	}
	why := "the shared pool has %s and keeps %d of them (guaranteed.floor)"
	if a.shared() < a.pools.floor() {
		why = "the shared pool has %s, fewer than its floor of %d (guaranteed.floor)"
	}
	return &allocate.Refusal{Asked: n, Free: free, Code: floorReached, Why: fmt.Sprintf(why, count(a.shared(), "CPU"), a.pools.floor())}
}

// leftBy returns the CPUs of containers that are not live.
func leftBy(demands []demand) cpuset.Set { return leftBefore(demands, math.MaxInt64) }

// leftBefore returns the part of leftBy that a container created at this time may take over. An
// ordinary init container has ended before any container that uses its CPUs is created. A
// container that is younger, or that ran at the same time, was no init container and will
// start again.
func leftBefore(demands []demand, createdAt int64) cpuset.Set {
	var left cpuset.Set
	for i := range demands {
		if c := &demands[i]; !c.live && !c.isReserve() && max(c.createdAt, c.finishedAt) <= createdAt {
			left = left.Union(c.cpus)
		}
	}
	return left
}

// releaseInactive takes cpus from the containers that are not live.
func releaseInactive(demands []demand, cpus cpuset.Set) {
	for i := range demands {
		if c := &demands[i]; !c.live && !c.isReserve() {
			c.cpus = c.cpus.Difference(cpus)
		}
	}
}

// excess returns by how many CPUs the containers of a demand's pod would exceed the pod's
// total with lack more; 0 for a unit, and if the total is unknown. CPUs above the total
// belonged to ordinary init containers: their requests are not added to the requests of
// the containers that run after them (KEP-753).
func (a *assigner) excess(c *demand, siblings []demand, lack int) int {
	if c.isUnit() {
		return 0
	}
	total, known := a.pods[c.pod].Resources.WholeCPUs()
	if !known {
		return 0
	}
	for i := range siblings {
		if !siblings[i].isReserve() {
			lack += siblings[i].cpus.Len()
		}
	}
	return lack - total
}

func take(from *allocate.Supply, r allocate.Request) (cpuset.Set, *allocate.Refusal) {
	cpus, err := from.Take(r)
	refusal, _ := errors.AsType[*allocate.Refusal](err) // Take returns no other error
	return cpus, refusal
}
