package allocate

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Shape says how a set of CPUs lies on a machine. Fewer is better in each field
// but Cores, of which there are at least as many as the set's size needs.
type Shape struct {
	CPUs int // those of the set that are online; the others count nowhere
	// Nodes, Packages, L3s and Cores are numbers of those that the set touches.
	Nodes, Packages, L3s, Cores int
	SplitCores                  int // cores of which the set has some online threads and not all: somebody else may run on the others
}

// Shape counts what cpus touch. It is a pure measure: it does not look at who
// else is there.
func (m *Machine) Shape(cpus cpuset.Set) Shape {
	t := m.topology
	s := Shape{CPUs: cpus.Intersection(t.Online).Len()}
	for i := range t.Nodes {
		s.Nodes += touched(t.Nodes[i].CPUs, cpus)
	}
	for i := range t.Packages {
		s.Packages += touched(t.Packages[i].CPUs, cpus)
	}
	for i := range t.L3s {
		s.L3s += touched(t.L3s[i].CPUs, cpus)
	}
	for i := range t.Cores {
		if touched(t.Cores[i].CPUs, cpus) == 0 {
			continue
		}
		s.Cores++
		if !t.Cores[i].CPUs.IsSubsetOf(cpus) {
			s.SplitCores++
		}
	}
	return s
}

func touched(group, cpus cpuset.Set) int {
	if group.Overlaps(cpus) {
		return 1
	}
	return 0
}
