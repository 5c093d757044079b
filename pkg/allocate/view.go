package allocate

import "math/bits"

// view contains the CPUs that one request may take of a supply, counted by core, leaf and
// cell, without the CPUs picked for it.
type view struct {
	m        *Machine
	extent   extent   // counted CPUs. After a Take the view is valid for the next request of the same extent
	usable   []uint64 // a bitset; coreFree counts it in each core
	coreFree []int32
	have     []uint64 // a bitset of the owner's CPUs, picked included.
	// spread counts the usable threads of the owner's cores as no core's: they add no cores
	// to the owner's.
	spread bool
	// own marks the cores of which the owner has a part, by index. It is empty if
	// the owner has no CPUs.
	own           []bool
	counts        []int32 // memory of all tallies
	leaves, cells []tally
	total         tally
	picked        []int
}

// tally counts the usable CPUs of some part of the machine: tally[0] is their number.
// tally[k] is the number of cores of k threads that are completely usable. With T as the
// largest number of threads in a core, tally[T+k] is the number of cores with k usable
// threads that are not completely usable.
type tally []int32

// filter selects the free CPUs that a request may take.
type filter struct {
	// isolated, coreType and without are bitsets: the CPUs must be in the first two and not in
	// the third. nil sets no bound.
	isolated, coreType, without []uint64
	// wholeCores leaves out cores that the owner cannot have with all their online
	// threads; untouched leaves out cores of which another owner has a part.
	wholeCores, untouched bool
	spread                bool // for a request that is spread over cores
}

// reset counts the CPUs of s that f admits, for an owner that has the CPUs of have.
func (v *view) reset(s *Supply, have []uint64, f *filter) {
	v.m = s.m
	clear(v.have)
	copy(v.have, have)
	extent := f.extent(s, have)
	if extent != someCPUs && extent == v.extent && len(v.picked) == 0 {
		v.markOwn()
		return
	}
	v.extent = extent
	copy(v.usable, s.free)
	drop(v.usable, have)
	drop(v.usable, f.without)
	keep(v.usable, f.isolated)
	keep(v.usable, f.coreType)
	v.picked, v.spread = v.picked[:0], f.spread
	v.markOwn()
	if v.counts == nil {
		v.makeMemory()
	} else {
		clear(v.coreFree)
		clear(v.counts)
	}
	if f.plain() {
		v.countAll()
	} else {
		for i := range s.m.cores {
			v.countCore(s, int32(i), f)
		}
	}
	for i := range v.leaves {
		v.cells[s.m.leaves[i].cell].add(v.leaves[i], 1)
	}
	for i := range v.cells {
		v.total.add(v.cells[i], 1)
	}
}

// keep removes the CPUs outside bound from words; nil stands for no bound.
func keep(words, bound []uint64) {
	for i, w := range bound {
		words[i] &= w
	}
}

// drop removes the CPUs in bound from words.
func drop(words, bound []uint64) {
	for i, w := range bound {
		words[i] &^= w
	}
}

func (v *view) markOwn() {
	v.own = v.own[:0]
	if count(v.have) == 0 {
		return
	}
	v.own = grown(v.own, len(v.m.cores))
	for cpu := range eachBit(v.have) {
		v.own[v.m.core[cpu]] = true
	}
}

// makeMemory makes the memory of all counts in few pieces.
func (v *view) makeMemory() {
	m := v.m
	stride := 2*m.threads + 1
	counts := make([]int32, len(m.cores)+stride*(len(m.leaves)+len(m.cells)+1))
	v.coreFree, v.counts = counts[:len(m.cores):len(m.cores)], counts[len(m.cores):]
	tallies := make([]tally, len(m.leaves)+len(m.cells)+1)
	for i := range tallies {
		tallies[i] = v.counts[i*stride : (i+1)*stride : (i+1)*stride]
	}
	v.leaves, v.cells, v.total = tallies[:len(m.leaves)], tallies[len(m.leaves):len(tallies)-1], tallies[len(tallies)-1]
}

// grown returns n zeros, in the memory of s if that is enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// extent is the part of a supply that a view counts.
type extent int

const (
	someCPUs extent = iota
	allCPUs
	untouchedCores // cores without an owner
)

// extent returns the part of s that f admits, for an owner that has the CPUs of have.
func (f *filter) extent(s *Supply, have []uint64) extent {
	switch {
	case f.isolated != nil || f.coreType != nil || f.without != nil || f.wholeCores || f.spread:
	case f.untouched && count(have) == 0:
		return untouchedCores
	case !f.untouched && !overlap(have, s.free):
		return allCPUs
	}
	return someCPUs
}

// plain reports whether the threads of all cores count alike.
func (f *filter) plain() bool { return !f.wholeCores && !f.untouched && !f.spread }

// countAll is countCore for all cores, for a plain filter.
func (v *view) countAll() {
	for i, w := range v.usable {
		for ; w != 0; w &= w - 1 {
			v.coreFree[v.m.core[i*wordBits+bits.TrailingZeros64(w)]]++
		}
	}
	stride := 2*v.m.threads + 1
	for i, k := range v.coreFree {
		if k == 0 {
			continue
		}
		at := int(v.m.leafOfCore[i]) * stride
		v.counts[at] += k
		if k != v.m.threadsOfCore[i] {
			at += v.m.threads
		}
		v.counts[at+int(k)]++
	}
}

// countCore adds the usable threads of a core to its leaf.
func (v *view) countCore(s *Supply, i int32, f *filter) {
	c := &v.m.cores[i]
	k, complete, untouched := int32(0), true, true
	for _, cpu := range c.threads {
		if hasBit(v.usable, int(cpu)) {
			k++
		} else if !hasBit(v.have, int(cpu)) {
			complete = false
			untouched = untouched && hasBit(s.free, int(cpu))
		}
	}
	if k == 0 {
		return
	}
	if f.wholeCores && !complete || f.untouched && !untouched {
		for _, cpu := range c.threads {
			clearBit(v.usable, int(cpu))
		}
		return
	}
	v.coreFree[i] = k
	v.leaves[c.leaf].count(k, v.kind(i, k), v.m.threads, 1)
}

// kind is how k usable threads of core i are counted.
func (v *view) kind(i, k int32) kind {
	switch {
	case v.spread && len(v.own) > 0 && v.own[i]:
		return loose
	case int(k) == len(v.m.cores[i].threads):
		return whole
	}
	return part
}

// take picks the n lowest usable CPUs of core i, which has as many.
func (v *view) take(i int32, n int) {
	c := &v.m.cores[i]
	was, after := v.kind(i, v.coreFree[i]), v.coreFree[i]-int32(n)
	if v.spread {
		if len(v.own) == 0 {
			v.own = grown(v.own, len(v.m.cores))
		}
		v.own[i] = true
	}
	v.change(i, was, after)
	for _, cpu := range c.threads {
		if n > 0 && hasBit(v.usable, int(cpu)) {
			clearBit(v.usable, int(cpu))
			setBit(v.have, int(cpu))
			v.picked = append(v.picked, int(cpu))
			n--
		}
	}
}

// drop makes all threads of core i unusable.
func (v *view) drop(i int32) {
	if v.coreFree[i] == 0 {
		return
	}
	v.change(i, v.kind(i, v.coreFree[i]), 0)
	for _, cpu := range v.m.cores[i].threads {
		clearBit(v.usable, int(cpu))
	}
}

// change counts core i, which was counted as was, with n usable threads.
func (v *view) change(i int32, was kind, n int32) {
	leaf := v.m.cores[i].leaf
	becomes := v.kind(i, n)
	for _, t := range [...]tally{v.leaves[leaf], v.cells[v.m.leaves[leaf].cell], v.total} {
		t.count(v.coreFree[i], was, v.m.threads, -1)
		t.count(n, becomes, v.m.threads, 1)
	}
	v.coreFree[i] = n
}

// kind is how the usable threads of a core are counted.
type kind int

const (
	whole kind = iota
	part
	loose // no core's
)

// count adds (sign 1) or removes (sign -1) a core that is usable with k threads,
// on a machine with up to threads in a core.
func (t tally) count(k int32, as kind, threads int, sign int32) {
	t[0] += sign * k
	switch {
	case k == 0 || as == loose:
	case as == whole:
		t[k] += sign
	default:
		t[threads+int(k)] += sign
	}
}

// add adds (sign 1) or subtracts (sign -1) other.
func (t tally) add(other tally, sign int32) {
	for i, n := range other {
		t[i] += sign * n
	}
}

// cpus is how many CPUs are usable.
func (t tally) cpus() int { return int(t[0]) }

// inWholeCores returns the number of CPUs in cores that are usable with all their threads.
func (t tally) inWholeCores() int {
	n := 0
	for threads := 1; threads <= len(t)/2; threads++ {
		n += threads * int(t[threads])
	}
	return n
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
