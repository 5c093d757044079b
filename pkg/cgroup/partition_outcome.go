package cgroup

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func (p *partitioner) outcome(w DesiredPartition) PartitionOutcome {
	n, there := p.View.Nodes[w.Path]
	refuse := func(format string, args ...any) PartitionOutcome {
		return PartitionOutcome{PartitionRefused, fmt.Sprintf(format, args...)}
	}
	switch {
	case w.Not != "":
		return PartitionOutcome{PartitionRefused, w.Not}
	case p.stuck(w.Path):
		return PartitionOutcome{PartitionRefused, p.Stuck[w.Path]}
	case !p.Kernel.Remote:
		return refuse("the kernel has no remote partitions (6.11 and later have)")
	case w.CPUs.IsEmpty():
		return refuse("it has no CPUs")
	case !there:
		return PartitionOutcome{PartitionWaits, "its cgroup is gone"}
	case !n.HasCPUSet:
		return refuse("its parent does not enable the cpuset controller")
	}
	for a := w.Path.Parent(); a != ""; a = a.Parent() {
		switch above := p.View.Nodes[a]; {
		case !above.HasCPUSet:
			return refuse("%s has no cpuset: the controller is not enabled for it", a)
		case !above.State.Is(MemberPartition):
			return refuse("%s, which it is in, is a partition (%s)", a, above.State)
		}
	}
	if out := p.blocker(w); out.Why != "" {
		return out
	}
	if p.inForce(w) {
		return PartitionOutcome{Phase: PartitionInForce}
	}
	if !w.CPUs.Overlaps(p.Online) {
		return PartitionOutcome{PartitionWaits, fmt.Sprintf("CPUs %s are offline", w.CPUs)}
	}
	return PartitionOutcome{Phase: PartitionUnderway}
}

// blocker finds siblings whose lists make the kernel reject w. At each level, no exclusive
// list of a sibling may have CPUs of w, and no cpuset.cpus of a sibling may have only CPUs of
// the new list. Before 7.0, a sibling of the cgroup itself may not have any in cpuset.cpus.
func (p *partitioner) blocker(w DesiredPartition) PartitionOutcome {
	for at := w.Path; at != ""; at = at.Parent() {
		has := p.View.Nodes[at].Exclusive
		list := has.Union(w.CPUs)
		for _, s := range p.siblings(at, func(n PartitionNode) bool { return n.Exclusive.Overlaps(w.CPUs) || n.CPUs.Overlaps(list) }) {
			n := p.View.Nodes[s]
			both := n.Exclusive.Intersection(w.CPUs)
			swallowed := !has.Equal(list) && n.Exclusive.IsEmpty() && !n.CPUs.IsEmpty() && n.CPUs.IsSubsetOf(list)
			switch {
			case !both.IsEmpty():
				return PartitionOutcome{PartitionWaits, fmt.Sprintf("%s has CPUs %s in its cpuset.cpus.exclusive", s, both)}
			case swallowed:
				return PartitionOutcome{PartitionRefused, fmt.Sprintf("%s has only such CPUs in its cpuset.cpus, %s", s, n.CPUs)}
			case at == w.Path && !p.Kernel.Settled && n.CPUs.Overlaps(w.CPUs):
				return PartitionOutcome{PartitionRefused, fmt.Sprintf("%s in the same pod has CPUs %s in its cpuset.cpus, which breaks partitions on kernels before 7.0", s, n.CPUs)}
			}
		}
	}
	return PartitionOutcome{}
}

// siblings are the other children of the parent that matter, sorted.
func (p *partitioner) siblings(of Path, matters func(PartitionNode) bool) (all []Path) {
	for _, path := range p.below[of.Parent()] {
		if path != of && matters(p.View.Nodes[path]) {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return all
}

// inForce reports whether the kernel has granted w completely.
func (p *partitioner) inForce(w DesiredPartition) bool {
	n := p.View.Nodes[w.Path]
	return n.State.Is(w.Type) && n.Exclusive.Equal(w.CPUs) && p.within(w.Path, w.CPUs) && n.Effective.Equal(w.CPUs.Intersection(p.Online)) && p.View.Shared(w.Path).IsEmpty()
}

// within reports whether all ancestors have the CPUs in their lists.
func (p *partitioner) within(leaf Path, cpus cpuset.Set) bool {
	for a := leaf.Parent(); a != ""; a = a.Parent() {
		if !cpus.IsSubsetOf(p.exclusive[a]) {
			return false
		}
	}
	return true
}

// wanted reports whether w may come into force, or remains in force.
func (p *partitioner) wanted(w DesiredPartition) bool {
	switch p.step.Outcomes[w.Path].Phase {
	case PartitionRefused:
		return false
	case PartitionWaits: // it keeps the CPUs that it has
		return p.View.Nodes[w.Path].Exclusive.IsSubsetOf(w.CPUs)
	}
	return true
}

// afford reports whether the root can spare the CPUs of w that the partition does not
// have yet.
func (p *partitioner) afford(w DesiredPartition, has cpuset.Set) PartitionOutcome {
	more := w.CPUs.Intersection(p.Online).Difference(has)
	left := p.root.Difference(more)
	switch lost := more.Difference(p.root); {
	case !lost.IsEmpty():
		return PartitionOutcome{PartitionWaits, fmt.Sprintf("CPUs %s are in another partition, or the kernel has not given them back", lost)}
	case left.IsEmpty():
		return PartitionOutcome{PartitionRefused, "it would take the last CPUs that are in no partition"}
	case !p.Housekeeping.IsEmpty() && !left.Overlaps(p.Housekeeping):
		return PartitionOutcome{PartitionRefused, fmt.Sprintf("it would take the last of the management and shared CPUs (%s)", p.Housekeeping)}
	}
	return PartitionOutcome{Phase: PartitionUnderway}
}
