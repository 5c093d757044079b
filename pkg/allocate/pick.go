package allocate

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// pick takes n CPUs out of the supply, which must have as many, for a container
// that holds the CPUs of have. In this order it takes as few cores in part, as
// few NUMA nodes and as few packages as possible, and of what is left the fullest
// that fits; see the package comment.
func (s *Supply) pick(n int, have cpuset.Set) cpuset.Set {
	f := filler{s: s, need: n, out: make([]int, 0, n), usedL3: make([]bool, s.m.l3s)}
	cells := f.completeCores(have)
	if f.need > 0 {
		f.fill(s.chooseCells(f.need, cells))
	}
	return cpuset.Of(f.out...)
}

// filler takes CPUs from given cells.
type filler struct {
	s    *Supply
	need int
	out  []int
	// usedL3 marks the caches that the container's CPUs share.
	usedL3 []bool
}

// completeCores takes what is free in cores that the container holds a part of.
// It returns the cells that the container is in.
func (f *filler) completeCores(have cpuset.Set) []int32 {
	var cells []int32
	for cpu := range have.All() {
		i := f.s.m.coreOf(cpu)
		if i == none {
			continue
		}
		c := f.s.m.cores[i]
		if !slices.Contains(cells, c.cell) {
			cells = append(cells, c.cell)
		}
		f.usedL3[c.l3] = true
		if f.need > 0 {
			f.take(i)
		}
	}
	return cells
}

// take takes as much as it needs of core c.
func (f *filler) take(c int32) {
	n := min(int(f.s.coreFree[c]), f.need)
	if n == 0 {
		return
	}
	f.out = f.s.take(c, n, f.out)
	f.need -= n
	f.usedL3[f.s.m.cores[c].l3] = true
}

// fill takes whole cores from the cells, the largest first, and what is missing
// then from as few other cores as possible.
func (f *filler) fill(cells []int32) {
	for k := f.s.m.threads; k > 0; k-- {
		if f.need >= k {
			f.wholeCores(k, cells)
		}
	}
	for f.need > 0 {
		c := f.bestPart(cells)
		if c == none {
			return // chooseCells chose enough; nothing is left to take
		}
		f.take(c)
	}
}

// wholeCores takes as many whole cores of k threads as it needs, cache by cache.
func (f *filler) wholeCores(k int, cells []int32) {
	counts := make([]int32, f.s.m.l3s)
	available := int32(0)
	f.eachWhole(k, cells, func(c int32) {
		counts[f.s.m.cores[c].l3]++
		available++
	})
	for missing := min(int32(f.need/k), available); missing > 0; {
		l3 := f.bestL3(counts, missing)
		counts[l3] = 0
		f.eachWhole(k, cells, func(c int32) {
			if missing > 0 && f.s.m.cores[c].l3 == l3 {
				f.take(c)
				missing--
			}
		})
	}
}

// eachWhole calls do for the whole free cores of k threads in cells.
func (f *filler) eachWhole(k int, cells []int32, do func(c int32)) {
	for _, cell := range cells {
		if f.s.cells[cell].whole[k] == 0 {
			continue
		}
		for _, c := range f.s.m.cells[cell].cores {
			if int(f.s.coreFree[c]) == k && f.s.isWhole(c) {
				do(c)
			}
		}
	}
}

// bestL3 chooses the cache to take cores from, given how many there are: one in
// use by the container before others, then the fullest that has enough, then
// the one that has the most.
func (f *filler) bestL3(counts []int32, missing int32) int32 {
	best := int32(none)
	for l3 := range counts {
		if counts[l3] > 0 && (best == none || f.betterL3(int32(l3), best, counts, missing)) {
			best = int32(l3)
		}
	}
	return best
}

func (f *filler) betterL3(a, b int32, counts []int32, missing int32) bool {
	if f.usedL3[a] != f.usedL3[b] {
		return f.usedL3[a]
	}
	fitsA, fitsB := counts[a] >= missing, counts[b] >= missing
	switch {
	case fitsA != fitsB:
		return fitsA
	case fitsA:
		return counts[a] < counts[b]
	}
	return counts[a] > counts[b]
}

// bestPart chooses a core for less than a whole core: one that is not whole
// before one that is, so that whole cores stay whole, and none too small if one
// is large enough.
func (f *filler) bestPart(cells []int32) int32 {
	best := int32(none)
	for _, cell := range cells {
		for _, c := range f.s.m.cells[cell].cores {
			if f.s.coreFree[c] > 0 && (best == none || f.betterPart(c, best)) {
				best = c
			}
		}
	}
	return best
}

func (f *filler) betterPart(a, b int32) bool {
	freeA, freeB := f.s.coreFree[a], f.s.coreFree[b]
	fitsA, fitsB := int(freeA) >= f.need, int(freeB) >= f.need
	wholeA, wholeB := f.s.isWhole(a), f.s.isWhole(b)
	usedA, usedB := f.usedL3[f.s.m.cores[a].l3], f.usedL3[f.s.m.cores[b].l3]
	switch {
	case fitsA != fitsB:
		return fitsA
	case !fitsA && freeA != freeB:
		return freeA > freeB
	case wholeA != wholeB:
		return wholeB
	case usedA != usedB:
		return usedA
	case fitsA && freeA != freeB:
		return freeA < freeB
	}
	return false
}
