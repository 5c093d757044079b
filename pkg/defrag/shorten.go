package defrag

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// shortest returns the steps without those that turned out not to be needed: an
// owner that was moved twice goes to its last place at once, if that is possible
// and everybody else gets where he was to go.
func (s *search) shortest() []step {
	steps := s.steps
	for i := 0; i < len(steps); {
		fewer := make([]step, 0, len(steps)-1)
		fewer = append(append(fewer, steps[:i]...), steps[i+1:]...)
		if s.movedAfter(steps, i) && s.holds(fewer) {
			steps, i = fewer, 0
			continue
		}
		i++
	}
	return steps
}

// movedAfter says that the owner of step i is moved again later.
func (s *search) movedAfter(steps []step, i int) bool {
	for _, later := range steps[i+1:] {
		if later.owner == steps[i].owner {
			return true
		}
	}
	return false
}

// holds says that steps can be made from the start, and that each keeps the rules.
func (s *search) holds(steps []step) bool {
	n := s.node.clone()
	n.at = append([]cpuset.Set(nil), s.start...)
	for _, m := range steps {
		now := n.now(m.owner)
		to := n.measure(m.owner, m.to)
		good := to.better(now) || m.makesRoom && to.noWorse(now)
		if !good || !m.to.IsSubsetOf(n.open(m.owner)) || !n.mayCross(m.owner, to) {
			return false
		}
		n.at[m.owner] = m.to
	}
	return true
}
