package allocate

import "slices"

// filler takes CPUs from given leaves.
type filler struct {
	v      *view
	need   int
	leaves []int32
}

// fill takes the CPUs of q from leaves, which have enough.
func (q *search) fill(leaves []int32) {
	f := filler{v: q.v, need: q.n, leaves: leaves}
	// The leaf with the fewest free CPUs comes first, so that the remaining CPUs are in one cache.
	slices.SortStableFunc(f.leaves, func(a, b int32) int { return int(q.v.leaves[a][0] - q.v.leaves[b][0]) })
	if q.spread {
		f.spread()
		return
	}
	f.pack()
}

// pack takes whole cores, the largest first, or cores whose CPUs add up to the request exactly. It
// takes the remainder from as few other cores as possible.
func (f *filler) pack() {
	counts := f.counts()
	for k := f.v.m.threads; k > 0; k-- {
		f.eachCore(func(c int32) {
			if n := f.v.coreFree[c]; f.need >= k && int(n) == k && f.v.kind(c, n) == whole && (counts == nil || counts[k] > 0) {
				f.take(c, k)
				if counts != nil {
					counts[k]--
				}
			}
		})
	}
	for f.need > 0 {
		best := int32(none)
		f.eachCore(func(c int32) {
			if f.v.coreFree[c] > 0 && (best == none || f.betterPart(c, best)) {
				best = c
			}
		})
		f.take(best, min(f.need, int(f.v.coreFree[best])))
	}
}

// counts returns the numbers of whole cores to take, by threads. It returns nil if each core
// counts that the request has room for: all cores have the same number of threads, or whole
// cores do not add up.
func (f *filler) counts() []int32 {
	m := f.v.m
	if m.Group() == m.threads {
		return nil
	}
	t, counts := make(tally, 2*m.threads+1), make([]int32, m.threads+1)
	for _, leaf := range f.leaves {
		t.add(f.v.leaves[leaf], 1)
	}
	if !t.exact(f.need, m.threads, counts) {
		return nil
	}
	return counts
}

// betterPart reports whether core a is better than b for less than a whole core. A split
// core is better than a whole core, so that whole cores stay whole. A core that is large
// enough is better than a core that is too small.
func (f *filler) betterPart(a, b int32) bool {
	freeA, freeB := f.v.coreFree[a], f.v.coreFree[b]
	fitsA, fitsB := int(freeA) >= f.need, int(freeB) >= f.need
	wholeA, wholeB := f.v.kind(a, freeA) == whole, f.v.kind(b, freeB) == whole
	switch {
	case fitsA != fitsB:
		return fitsA
	case !fitsA:
		return freeA > freeB
	case wholeA != wholeB:
		return wholeB
	}
	return freeA < freeB
}

// spread takes one thread of each core, of cores that are wholly free first, then
// more of each where that is not enough.
func (f *filler) spread() {
	for _, kind := range [...]kind{whole, part} {
		f.eachCore(func(c int32) {
			if n := f.v.coreFree[c]; f.need > 0 && n > 0 && f.v.kind(c, n) == kind {
				f.take(c, 1)
			}
		})
	}
	for f.need > 0 {
		f.eachCore(func(c int32) {
			if f.need > 0 && f.v.coreFree[c] > 0 {
				f.take(c, 1)
			}
		})
	}
}

func (f *filler) take(c int32, n int) {
	f.v.take(c, n)
	f.need -= n
}

func (f *filler) eachCore(do func(c int32)) {
	for _, leaf := range f.leaves {
		for _, c := range f.v.m.leaves[leaf].cores {
			do(c)
		}
	}
}
