package allocate

import (
	"cmp"
	"slices"
)

// caches chooses, of the last-level caches in some cells, the fewest to take
// from. Caches that are alike are one class, so that a machine with hundreds of
// them has few combinations.
type caches struct {
	entries []cacheEntry
	// merged is the memory of tallies of caches in several cells, and place the
	// place of a cache in entries plus 1.
	merged, place []int32

	parts   int
	chosen  []int32
	sum     tally
	found   bool
	best    [3]int32 // far caches, broken cores, CPUs left
	bestSet []int32
}

// cacheEntry is the usable part of a cache in the cells at hand.
type cacheEntry struct {
	l3    int32
	near  bool
	tally tally
}

// choose finds the best caches in cells, and enters their cost in c.
// sum is the tally of the cells, from which parts cores are taken in part.
func (k *caches) choose(q *search, cells []int32, sum tally, parts int, c *cost) {
	k.parts, k.found = parts, false
	k.collect(q, cells)
	k.chosen, k.sum = k.chosen[:0], grown(k.sum, len(sum))
	// Caches that the owner already uses cost nothing.
	if q.baseL3s > 0 {
		k.entries = slices.DeleteFunc(k.entries, func(e cacheEntry) bool {
			if q.inL3[e.l3] {
				k.sum.add(e.tally, 1)
			}
			return q.inL3[e.l3]
		})
	}
	k.search(q)
	c[costL3s] = q.baseL3s + int32(len(k.bestSet))
	c[costFarL3s], c[costBroken], c[costLeftL3] = k.best[0], k.best[1], k.best[2]
}

// collect fills entries with the caches of cells.
func (k *caches) collect(q *search, cells []int32) {
	if k.entries == nil {
		k.entries = make([]cacheEntry, 0, len(q.m.leaves)/len(q.m.cells)+1)
	}
	k.entries = k.entries[:0]
	if q.m.l3sSpanCells {
		k.place = grown(k.place, len(q.m.topology.L3s))
		k.merged = grown(k.merged, len(q.m.leaves)*len(q.v.total))
	}
	room := k.merged
	for _, cell := range cells {
		for _, i := range q.m.cells[cell].leaves {
			t, l3 := q.v.leaves[i], q.m.leaves[i].l3
			if t[0] == 0 {
				continue
			}
			if q.m.l3sSpanCells {
				if at := k.place[l3]; at > 0 {
					k.entries[at-1].tally.add(t, 1)
					continue
				}
				own := tally(room[:len(t):len(t)])
				room = room[len(t):]
				copy(own, t)
				t = own
				k.place[l3] = int32(len(k.entries) + 1)
			}
			k.entries = append(k.entries, cacheEntry{l3: l3, near: q.nearL3[l3], tally: t})
		}
	}
}

// search tries one cache, two, and so on, and stops where it finds enough.
func (k *caches) search(q *search) {
	if k.consider(q); k.found {
		return
	}
	for i := range k.entries {
		if k.sum.cpus()+k.entries[i].tally.cpus() >= q.n {
			k.push(int32(i))
			k.consider(q)
			k.pop()
		}
	}
	if k.found {
		return
	}
	slices.SortStableFunc(k.entries, func(a, b cacheEntry) int {
		switch {
		case a.tally[0] != b.tally[0]:
			return cmp.Compare(b.tally[0], a.tally[0])
		case a.near != b.near:
			return cmp.Compare(toInt(b.near), toInt(a.near))
		}
		return slices.Compare(a.tally, b.tally)
	})
	for size := 2; size <= len(k.entries) && !k.found; size++ {
		k.extend(q, 0, size)
		if q.considered > maxCombinations {
			break
		}
	}
	if k.found {
		return
	}
	k.fillUp(q) // the fullest first
	slices.SortStableFunc(k.entries, func(a, b cacheEntry) int { return cmp.Compare(b.tally.inWholeCores(), a.tally.inWholeCores()) })
	k.fillUp(q)
}

// fillUp considers the first caches in order that are enough together, without the last ones that
// are not necessary.
func (k *caches) fillUp(q *search) {
	enough := func() bool {
		if k.sum.cpus() < q.n {
			return false
		}
		q.considered++
		parts, _, ok := q.cover(k.sum)
		return ok && parts <= k.parts
	}
	for i := 0; i < len(k.entries) && !enough(); i++ {
		k.push(int32(i))
	}
	for at, i := range slices.Backward(k.chosen) {
		if k.sum.add(k.entries[i].tally, -1); enough() {
			k.chosen = slices.Delete(k.chosen, at, at+1)
			continue
		}
		k.sum.add(k.entries[i].tally, 1)
	}
	k.consider(q)
	for len(k.chosen) > 0 {
		k.pop()
	}
}

// extend considers all combinations of size more caches, from entry i on, of
// which each class counts once.
func (k *caches) extend(q *search, i, size int) {
	q.considered++
	switch {
	case size == 0:
		k.consider(q)
		return
	case len(k.entries)-i < size || k.sum.cpus()+size*k.entries[i].tally.cpus() < q.n || q.considered > maxCombinations:
		return
	}
	next := i + 1
	for next < len(k.entries) && k.entries[next].near == k.entries[i].near && slices.Equal(k.entries[next].tally, k.entries[i].tally) {
		next++
	}
	most := min(next-i, size)
	for j := range most {
		k.push(int32(i + j))
	}
	for take := most; take >= 0; take-- {
		k.extend(q, next, size-take)
		if take > 0 {
			k.pop()
		}
	}
}

func (k *caches) push(i int32) {
	k.chosen = append(k.chosen, i)
	k.sum.add(k.entries[i].tally, 1)
}

func (k *caches) pop() {
	last := len(k.chosen) - 1
	k.sum.add(k.entries[k.chosen[last]].tally, -1)
	k.chosen = k.chosen[:last]
}

// consider holds the chosen caches against the best so far. Of equals the first
// stays.
func (k *caches) consider(q *search) {
	q.considered++ // together with what leads to it
	parts, broken, ok := q.cover(k.sum)
	if !ok || parts > k.parts {
		return
	}
	c := [...]int32{0, int32(broken), k.sum[0] - int32(q.n)}
	for _, i := range k.chosen {
		c[0] += toInt(!k.entries[i].near)
	}
	if k.found {
		at := 0
		for at < len(c)-1 && c[at] == k.best[at] {
			at++
		}
		if c[at] >= k.best[at] {
			return
		}
	}
	k.found, k.best = true, c
	k.bestSet = k.bestSet[:0]
	for _, i := range k.chosen {
		k.bestSet = append(k.bestSet, k.entries[i].l3)
	}
}

// appendLeaves appends the leaves of cells that are in the best caches.
func (k *caches) appendLeaves(q *search, cells, leaves []int32) []int32 {
	for _, cell := range cells {
		for _, i := range q.m.cells[cell].leaves {
			l3 := q.m.leaves[i].l3
			if q.v.leaves[i][0] > 0 && (q.inL3[l3] || slices.Contains(k.bestSet, l3)) {
				leaves = append(leaves, i)
			}
		}
	}
	return leaves
}
