package allocate

import (
	"math"
	"slices"
)

// maxCombinations bounds the combinations that are considered for one request,
// and with them its time. A search that reaches it goes on without trying all
// (greedy.go). Nearly all requests end after a few dozen.
const maxCombinations = 1 << 14

// manyCombinations are so many that it pays to have a good one first.
const manyCombinations = 64

// search looks for the part of a machine to take n CPUs from.
type search struct {
	m *Machine
	v *view
	n int

	byPackage   bool     // packages have priority over nodes
	cachesFirst bool     // caches have priority over nodes and packages
	hintedNodes []bool   // by index; nil without a hint.
	spread      bool     // one thread of each core
	whole       bool     // no core in part
	order       [5]uint8 // sequence of the first places of a cost
	// limit is the maximum number of groups that the owner may be in: nodes, or
	// packages with byPackage. 0 stands for no limit.
	limit int

	// inNode, inPackage and inL3 mark what the owner is in already, and nearNode,
	// nearPackage and nearL3 that and what its companions are in, by index.
	inNode, inPackage, inL3          []bool
	nearNode, nearPackage, nearL3    []bool
	baseNodes, basePackages, baseL3s int32
	nearL3s                          int32
	// allowed marks the cells to take from; nil stands for all.
	allowed []bool

	// parts is the fewest cores in part of all allowed cells together, and target the fewest
	// of the sets of groups within the limit. Sets with more cannot be the best choice.
	parts, target int
	fewestL3s     int32 // likewise for caches with cachesFirst; inFewestL3s is the set of such caches
	inFewestL3s   []int32
	considered    int // number of combinations of cells and of caches so far
	steps         int // number of steps of distribute so far

	*scratch

	found  bool
	best   choice
	outbid bool // the last combination was no better than the best, even without its caches
}

// scratch is the memory of a search; the next search reuses it.
type scratch struct {
	marks      []bool
	groups     []group
	candidates []int32 // groups where the owner is not yet
	sizes      []int32
	chosen     []int32 // of groups, by index
	sum        tally
	cells      []int32 // cells of the chosen groups
	leaves     []int32 // leaves of the best choice
	caches     caches
}

// reuse allocates the memory for the machine in few pieces, or clears the present memory.
func (q *search) reuse() {
	m := q.m
	groups, leaves, stride := max(len(m.cellsOfNode), len(m.cellsOfPackage)), len(m.leaves), 2*m.threads+1
	q.marks = grown(q.marks, 2*(len(m.cellsOfNode)+len(m.cellsOfPackage)+len(m.topology.L3s)))
	q.chosen = q.chosen[:0]
	if q.groups != nil {
		q.best.leaves = q.leaves
		return
	}
	q.groups = make([]group, 0, groups)
	room := make([]int32, 3*groups+len(m.cells)+3*leaves+2*stride)
	next := func(n int) []int32 {
		s := room[:0:n]
		room = room[n:]
		return s
	}
	q.candidates, q.sizes, q.chosen = next(groups), next(groups), next(groups)
	q.cells, q.leaves, q.sum = next(len(m.cells)), next(leaves), next(stride)
	q.caches.chosen, q.caches.bestSet, q.caches.sum = next(leaves), next(leaves), next(stride)
	q.best.leaves = q.leaves
}

// group is a NUMA node, or a package when they count first, with its cells that
// have something to take.
type group struct {
	cells []int32
	tally tally
	base  bool // the owner is there already
}

// choice is a part of the machine, with the cost of taking the CPUs there.
type choice struct {
	cost   cost
	leaves []int32 // leaves to take from
}

// run finds the best choice; it returns false without one.
func (q *search) run() bool {
	parts, _, ok := q.cover(q.collect())
	if !ok {
		return false
	}
	q.parts = parts
	candidates, base := q.candidates[:0], 0
	for i := range q.groups {
		if !q.groups[i].base {
			candidates = append(candidates, int32(i))
			continue
		}
		q.push(int32(i))
		base++
	}
	q.candidates = candidates
	limit := base + len(candidates)
	if q.limit > 0 {
		limit = min(limit, max(q.limit, base))
	}
	q.target = q.parts
	if limit < base+len(candidates) {
		q.target = q.fewestParts(candidates, limit-base)
	} else if q.cachesFirst {
		q.findFewestL3s(candidates)
	}
	for size := q.fewest(candidates); base+size <= limit; size++ {
		if size > 0 && combinations(len(candidates), size) > maxCombinations-q.considered {
			q.greedy(candidates, limit-base)
			break
		}
		if size > 1 && combinations(len(candidates), size) > manyCombinations {
			q.greedy(candidates, size) // a good choice spares the worse ones
		}
		q.extend(candidates, size)
		if q.found && (q.settled() || q.exhausted()) {
			break
		}
	}
	if q.fewestL3s > 0 && (!q.found || !q.settled()) {
		q.considerFewestL3s(candidates) // which may have been too many to come to
	}
	return q.found
}

// cover returns how q.n CPUs are taken from t; false if t has too few.
func (q *search) cover(t tally) (parts, broken int, ok bool) {
	if q.spread {
		return t.spread(q.n)
	}
	parts, broken, ok = t.cover(q.n)
	return parts, broken, ok && (parts == 0 || !q.whole)
}

// collect makes the groups and returns the tally of all of them.
func (q *search) collect() tally {
	lists := q.m.cellsOfNode
	in := q.inNode
	if q.byPackage {
		lists, in = q.m.cellsOfPackage, q.inPackage
	}
	q.sum = grown(q.sum, len(q.v.total))
	q.groups = q.groups[:0]
	for i, list := range lists {
		g := group{base: in[i], cells: q.usableCells(list)}
		switch len(g.cells) {
		case 0:
			if !g.base {
				continue
			}
			g.tally = make(tally, len(q.v.total))
		case 1:
			g.tally = q.v.cells[g.cells[0]]
		default:
			g.tally = make(tally, len(q.v.total))
			for _, c := range g.cells {
				g.tally.add(q.v.cells[c], 1)
			}
		}
		q.groups = append(q.groups, g)
	}
	if q.allowed == nil {
		return q.v.total
	}
	total := make(tally, len(q.v.total))
	for i := range q.groups {
		total.add(q.groups[i].tally, 1)
	}
	return total
}

// usableCells returns the part of cells with usable CPUs.
func (q *search) usableCells(cells []int32) []int32 {
	unusable := func(c int32) bool { return q.v.cells[c].cpus() == 0 || q.allowed != nil && !q.allowed[c] }
	if !slices.ContainsFunc(cells, unusable) {
		return cells
	}
	if len(cells) == 1 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(cells), unusable)
}

// fewest is how many of the candidates are needed at least for their CPUs alone.
func (q *search) fewest(candidates []int32) int {
	need := q.n - q.sum.cpus()
	if need <= 0 {
		return 0
	}
	q.sizes = q.sizes[:0]
	for _, g := range candidates {
		size := q.groups[g].tally[0]
		if int(size) >= need {
			return 1
		}
		q.sizes = append(q.sizes, size)
	}
	slices.Sort(q.sizes)
	for i, size := range slices.Backward(q.sizes) {
		if need -= int(size); need <= 0 {
			return len(q.sizes) - i
		}
	}
	return len(q.sizes) + 1
}

// settled reports whether more groups cannot be better than the best.
func (q *search) settled() bool {
	c := &q.best.cost
	if q.spread {
		return true
	}
	return c[costParts] <= int32(q.target) && (!q.cachesFirst || q.byPackage || c[costL3s] <= q.fewestL3s)
}

// fewestParts returns the fewest cores in part of any set of size candidates: smaller sets have
// at least as many. It returns the largest number if there are too many sets to try.
func (q *search) fewestParts(candidates []int32, size int) int {
	if combinations(len(candidates), size) > maxCombinations {
		return math.MaxInt32
	}
	least := math.MaxInt32
	if size == 0 {
		if parts, _, ok := q.cover(q.sum); ok {
			least = parts
		}
		return least
	}
	for i := range len(candidates) - size + 1 {
		q.push(candidates[i])
		least = min(least, q.fewestParts(candidates[i+1:], size-1))
		q.pop()
		if least <= q.parts {
			break
		}
	}
	return least
}

// findFewestL3s finds out how few caches can do at best, wherever they are.
func (q *search) findFewestL3s(candidates []int32) {
	for _, g := range candidates {
		q.push(g)
	}
	q.cells = q.cells[:0]
	for _, g := range q.chosen {
		q.cells = append(q.cells, q.groups[g].cells...)
	}
	var c cost
	q.caches.choose(q, q.cells, q.sum, q.parts, &c)
	q.fewestL3s, q.inFewestL3s = c[costL3s], slices.Clone(q.caches.bestSet)
	for range candidates {
		q.pop()
	}
}

// extend considers all combinations of size more candidates, in their order.
func (q *search) extend(candidates []int32, size int) {
	if size == 0 {
		q.considerGroups()
		return
	}
	for i := range len(candidates) - size + 1 {
		if q.exhausted() {
			return
		}
		if i > 0 && size == 1 && q.outbid && q.alike(candidates[i-1], candidates[i]) {
			q.considered++
			continue
		}
		q.push(candidates[i])
		q.extend(candidates[i+1:], size-1)
		q.pop()
	}
}

// alike reports whether group b, before caches are counted, costs at least as much as a: their
// other properties are equal. Most nodes of a large machine are alike.
func (q *search) alike(a, b int32) bool {
	x, y := &q.groups[a], &q.groups[b]
	if q.baseNodes > 0 || len(q.chosen) > 0 { // then distances count
		return false
	}
	if len(x.cells) != 1 || len(y.cells) != 1 || !slices.Equal(x.tally, y.tally) {
		return false
	}
	c, d := &q.m.cells[x.cells[0]], &q.m.cells[y.cells[0]]
	return q.nearNode[c.node] == q.nearNode[d.node] && q.nearPackage[c.pkg] == q.nearPackage[d.pkg]
}

// exhausted reports whether the search ends with the best choice so far.
func (q *search) exhausted() bool { return q.found && q.considered > maxCombinations }

func (q *search) push(g int32) {
	q.chosen = append(q.chosen, g)
	q.sum.add(q.groups[g].tally, 1)
}

func (q *search) pop() {
	last := len(q.chosen) - 1
	q.sum.add(q.groups[q.chosen[last]].tally, -1)
	q.chosen = q.chosen[:last]
}

// considerGroups holds the chosen groups against the best so far. Where one of
// them has several cells, not all of which may be needed, it considers subsets.
func (q *search) considerGroups() {
	q.considered++
	q.outbid = true
	parts, broken, ok := q.cover(q.sum)
	if !ok || !q.spread && (parts > q.target || q.found && int32(parts) > q.best.cost[costParts]) {
		return
	}
	q.cells = q.cells[:0]
	for _, g := range q.chosen {
		q.cells = append(q.cells, q.groups[g].cells...)
	}
	if !slices.ContainsFunc(q.chosen, q.hasChoice) {
		q.consider(q.cells, q.sum, parts, broken)
		return
	}
	s := subsets{q: q, parts: parts, broken: broken, sum: make(tally, len(q.sum))}
	s.run()
}

// hasChoice reports whether a chosen group has cells that may be left out.
func (q *search) hasChoice(g int32) bool {
	cells := q.groups[g].cells
	return len(cells) > 1 || len(cells) == 1 && q.groups[g].base && !q.isBase(cells[0])
}

// isBase reports whether cell c adds neither a node nor a package to the owner's.
func (q *search) isBase(c int32) bool {
	return q.inNode[q.m.cells[c].node] && q.inPackage[q.m.cells[c].pkg]
}

// combinations is the number of ways to choose k of n, as far as it does not
// exceed maxCombinations by much.
func combinations(n, k int) int {
	if k > n {
		return 0
	}
	c := 1
	for i := range min(k, n-k) {
		c = c * (n - i) / (i + 1)
		if c > maxCombinations {
			break
		}
	}
	return c
}
