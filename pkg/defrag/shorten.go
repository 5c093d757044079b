package defrag

import "slices"

// shortest returns the steps without unnecessary ones. An owner that was moved twice goes to
// its last place at once, if that is possible and all other owners get their places.
func (s *search) shortest() []step {
	steps := s.steps
	for i, effort := 0, maxEffort; i < len(steps) && effort > 0; {
		again := func(later step) bool { return later.owner == steps[i].owner }
		if !slices.ContainsFunc(steps[i+1:], again) {
			i++
			continue
		}
		effort -= len(steps) * s.price
		fewer := make([]step, 0, len(steps)-1)
		fewer = append(append(fewer, steps[:i]...), steps[i+1:]...)
		if s.holds(fewer, i) {
			steps, i = fewer, 0
			continue
		}
		i++
	}
	return steps
}

// holds reports whether steps can be made from the start and each keeps the rules;
// the steps before step known do.
func (s *search) holds(steps []step, known int) bool {
	n := s.start.clone()
	for _, m := range steps[:known] {
		n.put(m.owner, m.to)
	}
	for _, m := range steps[known:] {
		now := n.now(m.owner)
		to := n.measure(m.owner, m.to)
		good := to.better(now) || m.makesRoom && to.noWorse(now)
		if !good || !m.to.IsSubsetOf(n.open(m.owner)) || !n.mayCross(m.owner, to) {
			return false
		}
		n.put(m.owner, m.to)
	}
	return true
}
