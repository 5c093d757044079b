package cpuset

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// MaxCPUs bounds CPU numbers to 0..MaxCPUs-1. It is the largest NR_CPUS that a
// kernel can be configured with (x86 with MAXSMP, arch/x86/Kconfig), and it
// bounds what a hostile text can make the parsers allocate.
const MaxCPUs = 8192

const wordBits = 64

// Set is an immutable set of CPU numbers in 0..MaxCPUs-1. The zero value is the
// empty set.
type Set struct {
	// words holds CPU c in bit c%64 of word c/64. The last word is never zero,
	// and words is nil when the set is empty.
	words []uint64
}

// Of returns the set of the given CPUs, in any order, repeated or not. It panics
// when a CPU is outside 0..MaxCPUs-1: numbers that do not come from the program
// itself must go through one of the parsers.
func Of(cpus ...int) Set {
	last := -1
	for _, cpu := range cpus {
		mustBeCPU(cpu)
		last = max(last, cpu)
	}
	if last < 0 {
		return Set{}
	}
	words := wordsFor(last)
	for _, cpu := range cpus {
		words[cpu/wordBits] |= 1 << (cpu % wordBits)
	}
	return Set{words}
}

// Range returns the set of first..last, both included. It panics when first is
// greater than last or when one of them is outside 0..MaxCPUs-1.
func Range(first, last int) Set {
	mustBeCPU(first)
	mustBeCPU(last)
	if first > last {
		panic(fmt.Sprintf("cpuset: range %d-%d is reversed", first, last))
	}
	words := wordsFor(last)
	setRange(words, first, last)
	return Set{words}
}

// FromWords returns the set of the bits of words, which it copies. CPU c is in bit c%64 of
// word c/64, as in the kernel's own masks on machines of 64 bits (sched_getaffinity(2)). It
// panics if a CPU is outside 0..MaxCPUs-1.
func FromWords(words []uint64) Set {
	s := canonical(words)
	mustBeCPU(max(s.Last(), 0))
	return Set{slices.Clone(s.words)}
}

// Len returns the number of CPUs in s.
func (s Set) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// IsEmpty reports whether s has no CPUs.
func (s Set) IsEmpty() bool { return len(s.words) == 0 }

// Contains reports whether cpu is in s. Numbers that cannot be a CPU are in no
// set.
func (s Set) Contains(cpu int) bool {
	if cpu < 0 || cpu/wordBits >= len(s.words) {
		return false
	}
	return s.words[cpu/wordBits]&(1<<(cpu%wordBits)) != 0
}

// Equal reports whether s and other have the same CPUs.
func (s Set) Equal(other Set) bool { return slices.Equal(s.words, other.words) }

// First returns the lowest CPU of s, or -1 when s is empty.
func (s Set) First() int {
	for i, w := range s.words {
		if w != 0 {
			return i*wordBits + bits.TrailingZeros64(w)
		}
	}
	return -1
}

// Last returns the highest CPU of s, or -1 when s is empty.
func (s Set) Last() int {
	if s.IsEmpty() {
		return -1
	}
	i := len(s.words) - 1
	return i*wordBits + bits.Len64(s.words[i]) - 1
}

// All yields the CPUs of s in ascending order.
func (s Set) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s.words {
			for ; w != 0; w &= w - 1 {
				if !yield(i*wordBits + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

func mustBeCPU(cpu int) {
	if cpu < 0 || cpu >= MaxCPUs {
		panic(fmt.Sprintf("cpuset: CPU %d is outside 0-%d", cpu, MaxCPUs-1))
	}
}

// wordsFor returns cleared words with room for CPUs 0..last.
func wordsFor(last int) []uint64 { return make([]uint64, last/wordBits+1) }

// setRange sets the bits first..last, which words must have room for.
func setRange(words []uint64, first, last int) {
	lo, hi := first/wordBits, last/wordBits
	low := ^uint64(0) << (first % wordBits)
	high := ^uint64(0) >> (wordBits - 1 - last%wordBits)
	if lo == hi {
		words[lo] |= low & high
		return
	}
	words[lo] |= low
	for i := lo + 1; i < hi; i++ {
		words[i] = ^uint64(0)
	}
	words[hi] |= high
}

// canonical makes a Set of words, which it takes over.
func canonical(words []uint64) Set {
	n := len(words)
	for n > 0 && words[n-1] == 0 {
		n--
	}
	if n == 0 {
		return Set{}
	}
	return Set{words[:n]}
}

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
	n := len(s.words)
	for _, o := range others {
		n = min(n, len(o.words))
	}
	if n == 0 {
		return Set{}
	}
	words := slices.Clone(s.words[:n])
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
	words := slices.Clone(s.words)
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
		words := slices.Clone(s.words[:i+1])
		for ; count > n; count-- {
			words[i] &^= 1 << (bits.Len64(words[i]) - 1)
		}
		return Set{words}
	}
	return s
}
