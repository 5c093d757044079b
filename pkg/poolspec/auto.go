package poolspec

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// On returns s with the CPUs of the partitions that have Auto. [Spec.Resolve] and [Spec.Adapt]
// call it. A caller that resolves s again after CPUs went offline keeps the result of the first
// call: otherwise the partition would move onto CPUs that became exclusive since.
//
// A partition with Auto gets 1 CPU of up to 3 online ones, 2 of up to 31, 4 of up to 255 and 8 of
// more. It gets whole cores if they are at most a quarter of the machine, and cores of the first
// NUMA node first. It gets no CPU of another list. It gets CPUs that the kernel isolates only if
// no other CPUs are left.
func (s Spec) On(t *topology.Topology) Spec {
	isAuto := func(p Partition) bool { return p.Auto && p.CPUs.IsEmpty() }
	if !slices.ContainsFunc(s.Partitions, isAuto) {
		return s
	}
	free := t.Online.Difference(s.Guaranteed.Mixed.CPUs)
	for _, l := range new(resolver).lists(&s) {
		free = free.Difference(*l.cpus)
	}
	s.Partitions = slices.Clone(s.Partitions)
	for i := range s.Partitions {
		if isAuto(s.Partitions[i]) {
			s.Partitions[i].CPUs = s.firstCores(t, free)
			free = free.Difference(s.Partitions[i].CPUs)
		}
	}
	return s
}

// firstCores returns the CPUs of a partition with Auto, of those in free.
func (s Spec) firstCores(t *topology.Topology, free cpuset.Set) cpuset.Set {
	limit := free.Len()
	if s.Shared == nil {
		limit-- // the shared pool has the rest
	}
	if others := free.Difference(t.Isolated); !others.IsEmpty() {
		free = others
	}
	want := min(autoSize(t.Online.Len()), limit)
	var got cpuset.Set
	for _, core := range coresByNode(t) {
		more := got.Union(core.CPUs)
		isSmall := more.Len() <= want || 4*more.Len() <= t.Online.Len()
		if got.Len() < want && core.CPUs.IsSubsetOf(free) && more.Len() <= limit && isSmall {
			got = more
		}
	}
	return got.Union(free.Difference(got).Take(want - got.Len()))
}

// autoSize returns the number of CPUs of a partition with Auto on a machine with n online CPUs,
// before whole cores are counted.
func autoSize(n int) int {
	switch {
	case n < 4:
		return 1
	case n < 32:
		return 2
	case n < 256:
		return 4
	}
	return 8
}

// coresByNode returns the cores of the machine. The NUMA node of the first core comes first.
func coresByNode(t *topology.Topology) []topology.Group {
	isNear := func(core topology.Group) bool {
		a, _ := t.CPU(t.Cores[0].CPUs.First())
		b, _ := t.CPU(core.CPUs.First())
		return a.Node == b.Node
	}
	var near, far []topology.Group
	for _, core := range t.Cores {
		if isNear(core) {
			near = append(near, core)
		} else {
			far = append(far, core)
		}
	}
	return append(near, far...)
}
