package allocate

import (
	"slices"
)

// subsets tries the smallest subsets of the chosen groups' cells that take no
// more cores in part than all of them.
type subsets struct {
	q             *search
	parts, broken int // with all of the cells
	chosen        []int32
	sum           tally
	found         bool
	fewestL3s     int32 // how few caches can do at best, where caches come first
}

func (s *subsets) run() {
	cells := slices.Clone(s.q.cells)
	if s.q.cachesFirst {
		var c cost
		s.q.caches.choose(s.q, cells, s.q.sum, s.parts, &c)
		s.fewestL3s = c[costL3s]
	}
	var free []int32
	for _, c := range cells {
		if s.q.isBase(c) {
			s.push(c)
		} else {
			free = append(free, c)
		}
	}
	for size := 0; size <= len(free) && !s.settled(); size++ {
		if combinations(len(free), size) > maxCombinations-s.q.considered {
			s.q.consider(cells, s.q.sum, s.parts, s.broken)
			return
		}
		s.extend(free, size)
	}
}

// settled reports whether more cells cannot be better.
func (s *subsets) settled() bool {
	switch {
	case !s.found:
		return false
	case s.q.cachesFirst:
		return s.q.best.cost[costL3s] <= s.fewestL3s
	}
	return !s.q.byPackage || s.q.hintedNodes == nil
}

func (s *subsets) extend(cells []int32, size int) {
	if size > 0 {
		for i := range len(cells) - size + 1 {
			if s.q.exhausted() {
				return
			}
			s.push(cells[i])
			s.extend(cells[i+1:], size-1)
			s.sum.add(s.q.v.cells[cells[i]], -1)
			s.chosen = s.chosen[:len(s.chosen)-1]
		}
		return
	}
	s.q.considered++
	if parts, broken, ok := s.q.cover(s.sum); ok && parts <= s.parts {
		s.q.consider(s.chosen, s.sum, parts, broken)
		s.found = true
	}
}

func (s *subsets) push(c int32) {
	s.chosen = append(s.chosen, c)
	s.sum.add(s.q.v.cells[c], 1)
}
