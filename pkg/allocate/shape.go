package allocate

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// Shape describes the position of a set of CPUs on a machine. Fewer is better in each field
// but Cores, of which a set of some size needs a minimum.
type Shape struct {
	CPUs int // online CPUs of the set; the other fields ignore offline CPUs
	// Nodes, Packages, L3s and Cores are numbers of parts that the set touches.
	Nodes, Packages, L3s, Cores int
	SplitCores                  int // cores of which the set has some online threads and not all: other tasks may run on the rest
}

// Shape counts the parts of the machine that cpus touch. Other owners have no
// effect.
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
