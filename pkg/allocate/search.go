package allocate

import "slices"

// maxCombinations bounds the search for cells. It is exhaustive on machines with
// up to 14 cells that have free CPUs, and most allocations end with one cell.
const maxCombinations = 1 << 12

// cost orders the ways to take CPUs, the most important first.
type cost struct {
	nodes, packages int // touched
	distance        int // over all pairs of nodes
	broken          int // whole cores that are taken in part
	left            int // CPUs of the touched cells that stay free
}

func (a cost) less(b cost) bool {
	switch {
	case a.nodes != b.nodes:
		return a.nodes < b.nodes
	case a.packages != b.packages:
		return a.packages < b.packages
	case a.distance != b.distance:
		return a.distance < b.distance
	case a.broken != b.broken:
		return a.broken < b.broken
	}
	return a.left < b.left
}

// search looks for the cells to take n CPUs from.
type search struct {
	s     *Supply
	n     int
	parts int // the fewest cores taken in part, whatever the cells

	// The combination under consideration, which starts with the cells that the
	// container is in already.
	chosen          []int32
	sum             tally
	inNode, inPkg   []int32 // chosen cells by node and package
	nodes, packages int

	found bool
	best  []int32
	cost  cost
}

// chooseCells returns the cells from which n CPUs are to be taken: first as few
// cores in part as possible, then the lowest cost. have are cells that count as
// touched whether anything is taken from them or not. n must not exceed the
// supply.
//
// It tries combinations of one cell, then of two, and so on, and stops where it
// finds one: a cell more is a node more, or where one node spans packages it is
// a package more.
func (s *Supply) chooseCells(n int, have []int32) []int32 {
	parts, _, _ := s.total.cover(n)
	q := search{
		s: s, n: n, parts: parts,
		sum:    tally{whole: make([]int32, s.m.threads+1), part: make([]int32, s.m.threads+1)},
		inNode: make([]int32, s.m.nodes),
		inPkg:  make([]int32, s.m.packages),
	}
	for _, c := range have {
		q.push(c)
	}
	candidates := make([]int32, 0, len(s.cells))
	for i := range s.cells {
		if s.cells[i].cpus > 0 && !slices.Contains(have, int32(i)) {
			candidates = append(candidates, int32(i))
		}
	}
	for size := 0; size <= len(candidates) && !q.found; size++ {
		if combinations(len(candidates), size) > maxCombinations {
			q.fill(candidates)
			break
		}
		q.extend(candidates, size)
	}
	return q.best
}

// extend considers all combinations of size more candidates, in their order.
func (q *search) extend(candidates []int32, size int) {
	if size == 0 {
		q.consider()
		return
	}
	for i := range len(candidates) - size + 1 {
		q.push(candidates[i])
		q.extend(candidates[i+1:], size-1)
		q.pop()
	}
}

// fill is for machines with too many cells to try all combinations: it adds
// those with the most free CPUs until it has enough.
func (q *search) fill(candidates []int32) {
	slices.SortStableFunc(candidates, func(a, b int32) int {
		return int(q.s.cells[b].cpus - q.s.cells[a].cpus)
	})
	for _, c := range candidates {
		q.push(c)
		if q.consider(); q.found {
			return
		}
	}
}

// consider holds the chosen cells against the best so far. Of equals the first
// stays, which has the lowest numbers.
func (q *search) consider() {
	parts, broken, ok := q.sum.cover(q.n)
	if !ok || parts > q.parts {
		return
	}
	c := cost{nodes: q.nodes, packages: q.packages, broken: broken, left: int(q.sum.cpus) - q.n}
	for i, a := range q.chosen {
		for _, b := range q.chosen[:i] {
			c.distance += q.s.m.distance(q.s.m.cells[a].node, q.s.m.cells[b].node)
		}
	}
	if q.found && !c.less(q.cost) {
		return
	}
	q.found, q.cost = true, c
	q.best = append(q.best[:0], q.chosen...)
}

func (q *search) push(c int32) {
	q.chosen = append(q.chosen, c)
	q.sum.add(q.s.cells[c], 1)
	q.nodes += enter(q.inNode, q.s.m.cells[c].node)
	q.packages += enter(q.inPkg, q.s.m.cells[c].pkg)
}

func (q *search) pop() {
	c := q.chosen[len(q.chosen)-1]
	q.chosen = q.chosen[:len(q.chosen)-1]
	q.sum.add(q.s.cells[c], -1)
	q.nodes -= leave(q.inNode, q.s.m.cells[c].node)
	q.packages -= leave(q.inPkg, q.s.m.cells[c].pkg)
}

// enter counts one more in place i and returns 1 when it is the first there.
func enter(counts []int32, i int) int {
	counts[i]++
	if counts[i] == 1 {
		return 1
	}
	return 0
}

// leave is the reverse of enter.
func leave(counts []int32, i int) int {
	counts[i]--
	if counts[i] == 0 {
		return 1
	}
	return 0
}

// combinations is the number of ways to choose k of n, as far as it does not
// exceed maxCombinations by much.
func combinations(n, k int) int {
	c := 1
	for i := range min(k, n-k) {
		c = c * (n - i) / (i + 1)
		if c > maxCombinations {
			break
		}
	}
	return c
}
