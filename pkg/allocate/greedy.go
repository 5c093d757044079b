package allocate

import (
	"cmp"
	"slices"
)

// greedy is for machines with too many cells to try all combinations. It adds
// groups until they have enough CPUs, the emptiest first. It does so once over all groups, and
// once package by package, with the owner's packages first. Then it replaces the last group
// by each other group.
func (q *search) greedy(candidates []int32, most int) {
	order := slices.Clone(candidates)
	size := func(g int32) int32 { return q.groups[g].tally[0] }
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(size(b), size(a)) })
	q.fillUp(order, most)

	packages := make([]int32, len(q.m.cellsOfPackage))
	pkg := func(g int32) int32 { return q.m.cells[q.groups[g].cells[0]].pkg }
	for _, g := range order {
		packages[pkg(g)] += size(g)
	}
	slices.SortStableFunc(order, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(toInt(q.inPackage[pkg(b)]), toInt(q.inPackage[pkg(a)])),
			cmp.Compare(packages[pkg(b)], packages[pkg(a)]), cmp.Compare(pkg(a), pkg(b)))
	})
	q.fillUp(order, most)
}

// considerFewestL3s holds the groups of the fewest caches against the best so far.
func (q *search) considerFewestL3s(candidates []int32) {
	before := len(q.chosen)
	wanted := func(leaf int32) bool { return slices.Contains(q.inFewestL3s, q.m.leaves[leaf].l3) }
	for _, g := range candidates {
		if slices.ContainsFunc(q.groups[g].cells, func(c int32) bool { return slices.ContainsFunc(q.m.cells[c].leaves, wanted) }) {
			q.push(g)
		}
	}
	q.considerGroups()
	for len(q.chosen) > before {
		q.pop()
	}
}

// fillUp adds groups in their order, at most as many as given.
func (q *search) fillUp(order []int32, most int) {
	before := len(q.chosen)
	for i, g := range order {
		if i == most {
			break
		}
		q.push(g)
		parts, _, ok := q.cover(q.sum)
		if !ok || parts > q.parts && i+1 < min(most, len(order)) {
			continue
		}
		q.considerGroups()
		for _, other := range order[i+1:] {
			if q.exhausted() {
				break
			}
			q.pop()
			q.push(other)
			q.considerGroups()
		}
		break
	}
	for len(q.chosen) > before {
		q.pop()
	}
}
