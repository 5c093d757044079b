package defrag

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxEffort bounds a search, and again the shortening of its result. Its unit is
// a request to the allocator on a machine of cheapCPUs. A request on a larger machine counts
// proportionally more. The search takes a few seconds at most.
const maxEffort = 1 << 17

const cheapCPUs = 256

type step struct {
	owner     int
	to        cpuset.Set
	makesRoom bool
}

// search finds moves and makes them in node as it goes.
type search struct {
	node  *node
	start *node // before the first step
	steps []step
	least []measured   // how each owner would lie if it were alone in the pool
	tried []cpuset.Set // CPUs that were open to each owner when it could not be moved last.
	// effort is the remaining effort, and price the cost of a request.
	effort, price int
}

// alone returns the best place for owner i without other owners, wherever it is
// now: a move must not change the least of its owner. An owner whose options cannot be met
// at all cannot be moved, so its position is its best. CPUs of a ResourceClaim are not in the pool, and
// never move.
func (n *node) alone(i int) measured {
	o := &n.owners[i]
	if o.Key.Claim != "" {
		return n.measure(i, o.CPUs)
	}
	var best measured
	for _, options := range variants(o.Options) {
		got, err := n.machine.Supply(n.pool).Take(allocate.Request{CPUs: o.CPUs.Len(), Nodes: o.Nodes, Options: options})
		if err != nil {
			continue
		}
		if m := n.measure(i, got); best.cpus.IsEmpty() || m.compare(best.measure) < 0 {
			best = m
		}
	}
	if best.cpus.IsEmpty() {
		return n.measure(i, o.CPUs)
	}
	return best
}

// improveWorst moves one owner: the owner with the worst place of all owners that a move can
// improve.
func (s *search) improveWorst() bool {
	for _, i := range s.worstFirst() {
		// CPUs that were open when it could not be moved need not be tried again.
		open := s.node.open(i)
		gained := open.Difference(s.tried[i])
		if gained.IsEmpty() {
			continue
		}
		if to, ok := s.improve(i, gained); ok {
			s.move(step{owner: i, to: to})
			return true
		}
		s.tried[i] = open
	}
	return false
}

// makeRoom moves an owner that is no worse off elsewhere out of the way of one
// that can be moved for the better then, and moves that one.
func (s *search) makeRoom() bool {
	for _, i := range s.worstFirst() {
		for j := range s.node.owners {
			if j == i || s.node.owners[j].Fixed != "" || s.effort <= 0 {
				continue
			}
			left := s.node.at[j]
			s.node.put(j, cpuset.Set{})
			to, ok := s.improve(i, left)
			s.node.put(j, left)
			if !ok {
				continue
			}
			away, ok := s.away(j, to)
			if !ok {
				continue
			}
			after := s.node.clone()
			after.put(j, away)
			if to.IsSubsetOf(after.open(i)) {
				s.move(step{owner: j, to: away, makesRoom: true})
				s.move(step{owner: i, to: to})
				return true
			}
		}
	}
	return false
}

// worstFirst are the owners that can be moved and are above their least.
func (s *search) worstFirst() []int {
	var order []int
	excess := make([]measure, len(s.node.owners))
	for i := range s.node.owners {
		excess[i] = s.node.now(i).above(s.least[i].measure)
		if s.node.owners[i].Fixed == "" && excess[i] != (measure{}) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return excess[j].compare(excess[i]) })
	return order
}

func (s *search) move(m step) {
	s.node.put(m.owner, m.to)
	s.tried[m.owner] = cpuset.Set{}
	s.steps = append(s.steps, m)
}

// improve returns the best place for owner i, if it is a better one than it has. It
// looks only where some of gained is.
func (s *search) improve(i int, gained cpuset.Set) (cpuset.Set, bool) {
	now := s.node.now(i)
	return s.best(i, s.node.open(i), gained, func(m measure) bool { return m.better(now) })
}

// away returns the best place for owner j that is off cpus and no worse than the
// one that it has.
func (s *search) away(j int, cpus cpuset.Set) (cpuset.Set, bool) {
	now := s.node.now(j)
	open := s.node.open(j).Difference(cpus)
	return s.best(j, open, open, func(m measure) bool { return m.noWorse(now) })
}

// best returns the best acceptable place for owner i on open CPUs, in parts that
// have some of gained. Among equal places it returns the one nearest to its CPUs.
func (s *search) best(i int, open, gained cpuset.Set, accept func(measure) bool) (cpuset.Set, bool) {
	if !open.Overlaps(gained) {
		return cpuset.Set{}, false
	}
	n := s.node
	s.effort -= s.price // finding the parts costs as much
	var best measured
	found := false
	for part, last := range n.parts(i, open, gained) {
		if s.effort <= 0 || last && found && best.measure == s.least[i].measure {
			break
		}
		for _, to := range s.ask(i, part) {
			m := n.measure(i, to)
			if !accept(m.measure) || !n.mayCross(i, m) || n.checkOptions(i, to) != nil {
				continue
			}
			moved := func(m measured) int { return m.cpus.Difference(n.at[i]).Len() }
			if !found || cmp.Or(m.compare(best.measure), moved(m)-moved(best)) < 0 {
				best, found = m, true
			}
		}
	}
	return best.cpus, found
}

// ask requests CPUs for owner i from the allocator, in a part of the machine. It tries
// all its options, and only the options that could refuse it. It tries each without the
// owner's CPUs, and with its whole cores in the part. A part may be too small for it.
func (s *search) ask(i int, part cpuset.Set) []cpuset.Set {
	o := &s.node.owners[i]
	if part.Len() < o.CPUs.Len() {
		return nil
	}
	var answers []cpuset.Set
	keeps := []cpuset.Set{{}}
	if whole := s.node.wholeCores(s.node.at[i].Intersection(part)); !whole.IsEmpty() {
		keeps = append(keeps, whole)
	}
	for _, options := range variants(o.Options) {
		for _, keep := range keeps {
			lack := o.CPUs.Len() - keep.Len()
			if lack == 0 || s.effort <= 0 {
				continue
			}
			s.effort -= s.price
			got, err := s.node.machine.Supply(part.Difference(keep)).Take(allocate.Request{CPUs: lack, Have: keep, Nodes: o.Nodes, Options: options})
			if err == nil {
				answers = append(answers, got.Union(keep))
			}
		}
	}
	return answers
}

// variants are options as they are and without mere preferences, which may stand
// in the way of what else could be better.
func variants(o allocate.Options) []allocate.Options {
	hard := o
	hard.DistributeCPUsAcrossNUMA, hard.DistributeCPUsAcrossCores, hard.PreferAlignCPUsByUncoreCache = false, false, false
	if hard.Isolated != allocate.Require {
		hard.Isolated = ""
	}
	if hard.CoreTypePreference != allocate.Require {
		hard.CoreType, hard.CoreTypePreference = "", ""
	}
	if hard == o {
		return []allocate.Options{o}
	}
	return []allocate.Options{o, hard}
}
