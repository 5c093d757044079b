package cpuset

import "math/bits"

// Union returns the CPUs that are in s or in any of others.
func (s Set) Union(others ...Set) Set {
	longest, some := s, 0
	if !s.IsEmpty() {
		some++
	}
	for _, o := range others {
		if len(o.words) > len(longest.words) {
			longest = o
		}
		if !o.IsEmpty() {
			some++
		}
	}
	if some <= 1 {
		return longest // sets are never changed
	}
	words := make([]uint64, len(longest.words))
	copy(words, s.words)
	for _, o := range others {
		for i, w := range o.words {
			words[i] |= w
		}
	}
	return Set{words}
}

// Intersection returns the CPUs that are in s and in each of others.
func (s Set) Intersection(others ...Set) Set {
	if len(others) == 0 {
		return s
	}
	n := len(s.words)
	for _, o := range others {
		n = min(n, len(o.words))
	}
	if n == 0 {
		return Set{}
	}
	words := make([]uint64, n)
	copy(words, s.words)
	for _, o := range others {
		for i := range words {
			words[i] &= o.words[i]
		}
	}
	return canonical(words)
}

// Difference returns the CPUs of s that are not in other.
func (s Set) Difference(other Set) Set {
	if !s.Overlaps(other) {
		return s
	}
	words := make([]uint64, len(s.words))
	copy(words, s.words)
	for i := range min(len(words), len(other.words)) {
		words[i] &^= other.words[i]
	}
	return canonical(words)
}

// IsSubsetOf reports whether each CPU of s is in other. The empty set is a
// subset of every set.
func (s Set) IsSubsetOf(other Set) bool {
	if len(s.words) > len(other.words) {
		return false
	}
	for i, w := range s.words {
		if w&^other.words[i] != 0 {
			return false
		}
	}
	return true
}

// Overlaps reports whether s and other have a CPU in common.
func (s Set) Overlaps(other Set) bool {
	for i := range min(len(s.words), len(other.words)) {
		if s.words[i]&other.words[i] != 0 {
			return true
		}
	}
	return false
}

// Take returns the n lowest CPUs of s: the empty set when n is not positive, all
// of s when it has no more than n.
func (s Set) Take(n int) Set {
	if n <= 0 {
		return Set{}
	}
	for i, w := range s.words {
		count := bits.OnesCount64(w)
		if count < n {
			n -= count
			continue
		}
		words := make([]uint64, i+1)
		copy(words, s.words)
		for ; count > n; count-- {
			words[i] &^= 1 << (bits.Len64(words[i]) - 1)
		}
		return Set{words}
	}
	return s
}
