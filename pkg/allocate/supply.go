package allocate

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Supply is a set of CPUs to choose from, counted by core and cell.
type Supply struct {
	m *Machine
	// free tells the CPUs of the set, by CPU number.
	free []bool
	// coreFree counts the CPUs of the set in each core.
	coreFree []int32
	cells    []tally
	total    tally
}

// tally counts the CPUs of a set in some part of the machine.
type tally struct {
	cpus int32
	// whole[k] counts the cores of k threads that are in the set with all of them;
	// part[k] those that are in it with k threads, but not with all.
	whole, part []int32
}

func (m *Machine) Supply(cpus cpuset.Set) *Supply {
	stride := m.threads + 1
	counts := make([]int32, 2*stride*(len(m.cells)+1))
	newTally := func() tally {
		t := tally{whole: counts[:stride:stride], part: counts[stride : 2*stride : 2*stride]}
		counts = counts[2*stride:]
		return t
	}
	s := &Supply{
		m:        m,
		free:     make([]bool, len(m.core)),
		coreFree: make([]int32, len(m.cores)),
		cells:    make([]tally, len(m.cells)),
		total:    newTally(),
	}
	for i := range s.cells {
		s.cells[i] = newTally()
	}
	for cpu := range cpus.All() {
		if c := m.coreOf(cpu); c != none {
			s.free[cpu] = true
			s.coreFree[c]++
		}
	}
	for i := range m.cores {
		s.count(int32(i), 1)
	}
	return s
}

// count adds (sign 1) or removes (sign -1) core c in the tallies.
func (s *Supply) count(c int32, sign int32) {
	k := s.coreFree[c]
	if k == 0 {
		return
	}
	for _, t := range []*tally{&s.cells[s.m.cores[c].cell], &s.total} {
		t.cpus += sign * k
		if s.isWhole(c) {
			t.whole[k] += sign
		} else {
			t.part[k] += sign
		}
	}
}

func (s *Supply) isWhole(c int32) bool { return int(s.coreFree[c]) == len(s.m.cores[c].threads) }

// take moves the n lowest CPUs of core c from the set to out.
func (s *Supply) take(c int32, n int, out []int) []int {
	s.count(c, -1)
	for _, cpu := range s.m.cores[c].threads {
		if n > 0 && s.free[cpu] {
			s.free[cpu] = false
			s.coreFree[c]--
			n--
			out = append(out, int(cpu))
		}
	}
	s.count(c, 1)
	return out
}

// add adds (sign 1) or subtracts (sign -1) other.
func (t *tally) add(other tally, sign int32) {
	t.cpus += sign * other.cpus
	for k := range t.whole {
		t.whole[k] += sign * other.whole[k]
		t.part[k] += sign * other.part[k]
	}
}

// cover says how n CPUs can be had from t: in parts cores that are taken only in
// part, broken of which were whole. It is false when t has fewer CPUs. This is
// what filler.fill does, without choosing the cores; both are the fewest parts
// where the numbers of threads divide one another (1, 2, 4, 8), as on real
// machines.
func (t *tally) cover(n int) (parts, broken int, ok bool) {
	if int(t.cpus) < n {
		return 0, 0, false
	}
	wholeLeft := false
	for k := len(t.whole) - 1; k > 0; k-- {
		cores := min(int(t.whole[k]), n/k)
		n -= cores * k
		wholeLeft = wholeLeft || cores < int(t.whole[k])
	}
	if n == 0 {
		return 0, 0, true
	}
	for k := len(t.part) - 1; k >= n; k-- {
		if t.part[k] > 0 {
			return 1, 0, true
		}
	}
	if wholeLeft {
		return 1, 1, true
	}
	for k := len(t.part) - 1; n > 0 && k > 0; k-- {
		cores := min(int(t.part[k]), (n+k-1)/k)
		n -= cores * k
		parts += cores
	}
	return parts, 0, true
}
