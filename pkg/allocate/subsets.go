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

// cover returns how a request of n CPUs is met from t. The number of cores of which only some
// threads are taken is parts, and broken is the number of these that were whole. It returns false
// if t has fewer CPUs. The filler takes the same cores. Both take the fewest cores in part if
// the numbers of threads divide one another (1, 2, 4, 8). That is so on real machines with up
// to two threads in a core, or with all threads online. They take whole cores alone if whole
// cores of any numbers of threads add up to n.
func (t tally) cover(n int) (parts, broken int, ok bool) {
	if t.cpus() < n {
		return 0, 0, false
	}
	threads, all := len(t)/2, n
	wholeLeft := false
	for k := threads; k > 0; k-- {
		cores := min(int(t[k]), n/k)
		n -= cores * k
		wholeLeft = wholeLeft || cores < int(t[k])
	}
	if n == 0 || t.exact(all, threads, nil) {
		return 0, 0, true
	}
	for k := threads; k >= n; k-- {
		if t[threads+k] > 0 {
			return 1, 0, true
		}
	}
	if wholeLeft {
		return 1, 1, true
	}
	for k := threads; n > 0 && k > 0; k-- {
		cores := min(int(t[threads+k]), (n+k-1)/k)
		n -= cores * k
		parts += cores
	}
	return parts, 0, true
}

// exact reports whether whole cores of up to k threads have n CPUs together, and enters their
// numbers in counts, by threads. It prefers cores of many threads. Few cores of a size are left
// out for others: as many as a core has threads are enough, because these can be replaced.
func (t tally) exact(n, k int, counts []int32) bool {
	if n == 0 {
		clear(counts)
		return true
	}
	room := 0
	for j := 1; j <= k; j++ {
		room += int(t[j]) * j
	}
	if room < n || k == 0 {
		return false
	}
	most := min(int(t[k]), n/k)
	for cores := most; cores >= max(0, most-len(t)/2); cores-- {
		if t.exact(n-cores*k, k-1, counts[:min(k, len(counts))]) {
			if counts != nil {
				counts[k] = int32(cores)
			}
			return true
		}
	}
	return false
}

// spread returns how n CPUs are taken from t on as many cores as possible. doubled is the number
// of CPUs that share a core with another CPU of the owner. crowded is the number of CPUs on
// cores of which another owner has, or may get, the rest.
func (t tally) spread(n int) (doubled, crowded int, ok bool) {
	if t.cpus() < n {
		return 0, 0, false
	}
	threads := len(t) / 2
	whole, part := 0, 0
	for k := 1; k <= threads; k++ {
		whole += int(t[k])
		part += int(t[threads+k])
	}
	return max(0, n-whole-part), max(0, min(n, whole+part)-whole), true
}
