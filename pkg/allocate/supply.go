package allocate

import (
	"math/bits"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Supply is a set of CPUs to choose from. It is not safe for concurrent use.
type Supply struct {
	m    *Machine
	free []uint64 // a bitset
	had  []uint64 // memory for an owner's CPUs, a bitset.
	view view     // kept for its memory, and because it may still be right
	// request, attempt and placing belong to the last Take; the next one reuses their
	// memory.
	request    Request
	attempt    attempt
	placing    placing
	scratch    scratch
	considered int // number of combinations of the last Take
	steps      int // number of steps of its distributions
}

// Supply returns the supply of the CPUs of a set that are online.
func (m *Machine) Supply(cpus cpuset.Set) *Supply {
	words := make([]uint64, 4*m.words) // in one piece: most supplies serve once
	next := func() []uint64 {
		w := words[:m.words:m.words]
		words = words[m.words:]
		return w
	}
	s := &Supply{m: m, free: next(), had: next()}
	s.view.have, s.view.usable = next(), next()
	m.mark(s.free, cpus)
	return s
}

// Reset makes s the supply of other CPUs. It keeps its memory: the allocation is most of
// the cost of a new supply for a few CPUs of a large machine.
func (s *Supply) Reset(cpus cpuset.Set) {
	clear(s.free)
	s.m.mark(s.free, cpus)
	s.view.extent = someCPUs
}

func count(words []uint64) int {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	return n
}
