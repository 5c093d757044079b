package cgroup

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # The life of a partition
//
// A cgroup becomes a partition in steps, and the kernel's files are read again after each:
//
//	any state but the wanted one,  member. From 7.0 on, a root with only offline CPUs in its
//	or the root has its CPUs, too  list gets other CPUs first
//	member, not to be one          its exclusive list is cleared, then trimmed from
//	                               its ancestors, from the bottom up
//	member, to be one              siblings and ancestors are checked; then the CPUs
//	                               are added to the ancestors' lists, from the top down,
//	                               and to its own
//	member, with all lists         the type
//	as wanted, too many CPUs       its own list is cut, then its ancestors'
//	as wanted, too few             its ancestors' lists grow, then its own
//	valid, and an ancestor's       the list is filled again before other steps:
//	list does not have its CPUs    kernels before 6.16 lose the CPUs otherwise
//
// A type is only ever written over member, because other writes crash some kernels. CPUs
// are released before others are taken, so that no list that is about to shrink blocks
// another one. Ancestors' lists contain their children's lists; a CPU is removed from them
// only if the root shows it, because kernel 6.11 loses it otherwise.

// DesiredPartition is the partition that a cgroup should have.
type DesiredPartition struct {
	Path      Path
	Type      PartitionType // root or isolated
	CPUs      cpuset.Set    // not empty
	Container string        // copied to the writes
	Keep      bool          // take no CPUs now: the partition keeps those that it has
	// Not is the reason why the partition must not exist for now; empty if it may.
	Not string
}

// PartitionInput is all that a step depends on.
type PartitionInput struct {
	Kernel       PartitionKernel
	Desired      []DesiredPartition
	Former       []Path // cgroups whose partition is no longer desired and ends
	View         PartitionView
	Online       cpuset.Set
	Housekeeping cpuset.Set // CPUs of which at least one must stay with the root
	// Stuck are cgroups whose state must not change for now, with the reason:
	// see PartitionWrite.Stuck.
	Stuck map[Path]string
}

// PartitionWrite is a write for the partition of Leaf, which may be below its Path;
// Leaf is empty for a write that trims former partitions.
type PartitionWrite struct {
	Write
	Leaf Path
}

// Stuck is the cgroup that must not change after the kernel has refused the write, if a
// refusal of Leaf does not help. Its partition cannot be ended, or its list not be cut. Later
// steps do not use the CPUs of the write.
func (w PartitionWrite) Stuck() Path {
	return cmp.Or(w.Leaf, w.Path)
}

// PartitionPhase is the progress of a desired partition.
type PartitionPhase string

// A partition that is Refused needs a change of its inputs; a partition that Waits may come into
// force without one.
const (
	PartitionInForce  PartitionPhase = "in force"
	PartitionUnderway PartitionPhase = "under way"
	PartitionWaits    PartitionPhase = "waits"
	PartitionRefused  PartitionPhase = "refused"
)

// PartitionOutcome is the state of a desired partition, with the reason if it is not in force.
type PartitionOutcome struct {
	Phase PartitionPhase
	Why   string
}

// PartitionStep is the next step.
type PartitionStep struct {
	Writes   []PartitionWrite          // in order, up to the first that fails. Then the caller reads the kernel's files again
	Outcomes map[Path]PartitionOutcome // by path, of all desired partitions
	// Missing are online CPUs that neither the root nor any partition of the view has.
	// Some kernels return them late, and some never do.
	Missing cpuset.Set
}

// PlanPartitions returns the next writes on the way to the desired partitions.
// Without writes, no step is possible.
func PlanPartitions(in PartitionInput) PartitionStep {
	p := &partitioner{PartitionInput: in, exclusive: make(map[Path]cpuset.Set, len(in.View.Nodes)), below: make(map[Path][]Path), root: in.View.Root,
		step: PartitionStep{Outcomes: make(map[Path]PartitionOutcome, len(in.Desired))}}
	p.Desired = slices.SortedFunc(slices.Values(in.Desired), func(a, b DesiredPartition) int { return cmp.Compare(a.Path, b.Path) })
	for path, n := range in.View.Nodes {
		p.exclusive[path] = n.Exclusive
		p.below[path.Parent()] = append(p.below[path.Parent()], path)
	}
	p.step.Missing = p.missing()
	for _, w := range p.Desired {
		p.step.Outcomes[w.Path] = p.outcome(w)
	}
	for _, phase := range []func(){p.refill, p.giveBack, p.trim, p.take} {
		if phase(); len(p.step.Writes) > 0 {
			break
		}
	}
	return p.step
}

type partitioner struct {
	PartitionInput
	exclusive map[Path]cpuset.Set // lists, after the writes so far
	below     map[Path][]Path     // children of a cgroup, in any order
	root      cpuset.Set          // CPUs of the root, after the writes so far
	step      PartitionStep
}

// missing returns the online CPUs in no partition and not in the root. CPUs of an invalid
// partition are not missing: they return when it becomes a member.
func (p *partitioner) missing() cpuset.Set {
	out := p.Online.Difference(p.View.Root)
	for _, n := range p.View.Nodes {
		switch {
		case n.State.Valid():
			out = out.Difference(n.Effective)
		case n.State.Invalid:
			out = out.Difference(n.Exclusive)
		}
	}
	return out
}

// refill adds the CPUs of valid partitions to ancestors' lists from which another process
// has removed them. Some kernels leave the partition its CPUs. Then it can only be ended
// without loss if all lists have them.
func (p *partitioner) refill() {
	for _, leaf := range p.leaves() {
		n := p.View.Nodes[leaf]
		w := DesiredPartition{Path: leaf, CPUs: n.Exclusive}
		if !n.State.Valid() || p.stuck(leaf) || p.within(leaf, w.CPUs) || p.blocker(w).Why != "" {
			continue
		}
		p.claim(w)
	}
}

func (p *partitioner) stuck(path Path) bool {
	_, stuck := p.Stuck[path]
	return stuck
}

// leaves returns the cgroups of all desired and former partitions, sorted.
func (p *partitioner) leaves() []Path {
	all := slices.Clone(p.Former)
	for _, w := range p.Desired {
		all = append(all, w.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// giveBack makes members of undesired and broken partitions, and takes surplus CPUs from
// the others.
func (p *partitioner) giveBack() {
	desired := make(map[Path]DesiredPartition, len(p.Desired))
	for _, w := range p.Desired {
		desired[w.Path] = w
	}
	for _, leaf := range p.leaves() {
		n, there := p.View.Nodes[leaf]
		if !there || !n.HasCPUSet || p.stuck(leaf) {
			continue
		}
		w, isDesired := desired[leaf]
		isDesired = isDesired && p.wanted(w)
		keeps := n.Exclusive.Intersection(w.CPUs)
		wide := p.widened(leaf)
		live := isDesired && n.State.Is(w.Type) && keeps.Overlaps(p.Online) && p.within(leaf, n.Exclusive) && p.View.Shared(leaf).IsEmpty()
		switch {
		case live && !n.Exclusive.Equal(keeps):
			p.list(leaf, leaf, w.Container, keeps, "gives CPUs back")
		case live:
		case !wide.IsEmpty():
			p.list(leaf, leaf, w.Container, wide, "a partition of offline CPUs alone cannot be ended")
		case !n.State.Is(MemberPartition):
			was := n.State.String()
			if shared := p.View.Shared(leaf); !shared.IsEmpty() {
				was += fmt.Sprintf(" and has CPUs %s together with the root", shared)
			}
			p.emit(leaf, leaf, w.Container, FilePartition, string(MemberPartition), "was "+was)
		case !n.Exclusive.IsEmpty() && (!isDesired || !n.Exclusive.IsSubsetOf(w.CPUs)):
			p.list(leaf, leaf, w.Container, cpuset.Set{}, "gives CPUs back")
		}
	}
}

// widened is the list with which the kernel ends a root partition whose CPUs are all
// offline; empty if the kernel ends it anyway. A cgroup that becomes a member without this
// list is broken: its list and its cpuset.cpus reject values without online CPUs. (EBUSY,
// seen on 7.2: dl_cpuset_cpumask_can_shrink finds no room for the deadline servers.) Its tasks run on all CPUs of its parent. The list has no
// effect on tasks, since the ancestors do not have these CPUs. Siblings bound it as in blocker.
// The effect on kernels before 7.0 is not known.
//
// The view decides which CPUs are offline: the root has all online CPUs of a broken partition.
// Online may be older.
func (p *partitioner) widened(leaf Path) cpuset.Set {
	n := p.View.Nodes[leaf]
	if !p.Kernel.Settled || !n.State.Invalid || n.State.Type != RootPartition || n.Exclusive.IsEmpty() || n.Exclusive.Overlaps(p.View.Root) {
		return cpuset.Set{}
	}
	wide := n.Exclusive.Union(p.View.Root)
	listed := func(n PartitionNode) bool { return !n.Exclusive.IsEmpty() || !n.CPUs.IsEmpty() }
	siblings := p.siblings(leaf, listed)
	for _, s := range siblings {
		wide = wide.Difference(p.exclusive[s])
	}
	for _, s := range siblings {
		if cpus := p.View.Nodes[s].CPUs; !cpus.IsEmpty() && cpus.IsSubsetOf(wide) {
			wide = wide.Difference(cpuset.Of(cpus.Last()))
		}
	}
	if !wide.Overlaps(p.View.Root) {
		return cpuset.Set{}
	}
	return wide
}

// trim takes the CPUs that no child has any longer from the ancestors, from the
// bottom up, if the root has them.
func (p *partitioner) trim() {
	desired := make(map[Path]cpuset.Set)
	for _, w := range p.Desired {
		if w.Keep || !p.wanted(w) {
			continue
		}
		for a := w.Path.Parent(); a != ""; a = a.Parent() {
			desired[a] = desired[a].Union(w.CPUs)
		}
	}
	for _, a := range p.ancestors() {
		if p.stuck(a) {
			continue
		}
		n := p.View.Nodes[a]
		keep := desired[a]
		for _, child := range p.below[a] {
			keep = keep.Union(p.exclusive[child])
		}
		if over := n.Exclusive.Difference(keep).Intersection(p.View.Root); !over.IsEmpty() {
			p.list(a, "", "", n.Exclusive.Difference(over), "no cgroup in it has a partition of the rest")
		}
	}
}

// ancestors returns the ancestors of all leaves, the lowest first.
func (p *partitioner) ancestors() []Path {
	set := make(map[Path]bool)
	for _, leaf := range p.leaves() {
		for a := leaf.Parent(); a != ""; a = a.Parent() {
			if p.View.Nodes[a].HasCPUSet {
				set[a] = true
			}
		}
	}
	return slices.SortedFunc(maps.Keys(set), func(a, b Path) int {
		return cmp.Or(strings.Count(string(b), "/")-strings.Count(string(a), "/"), cmp.Compare(a, b))
	})
}

// take makes and grows partitions.
func (p *partitioner) take() {
	for _, w := range p.Desired {
		if p.step.Outcomes[w.Path].Phase != PartitionUnderway || w.Keep {
			continue
		}
		n := p.View.Nodes[w.Path]
		var has cpuset.Set
		if n.State.Valid() {
			has = n.Effective
		}
		if out := p.afford(w, has); out.Phase != PartitionUnderway {
			if p.step.Outcomes[w.Path] = out; out.Phase == PartitionRefused && n.State.Is(MemberPartition) && !n.Exclusive.IsEmpty() {
				p.list(w.Path, w.Path, w.Container, cpuset.Set{}, "gives CPUs back")
			}
			continue
		}
		p.root = p.root.Difference(w.CPUs)
		switch {
		case !p.within(w.Path, w.CPUs) || !n.Exclusive.Equal(w.CPUs):
			p.claim(w)
		case n.State.Is(MemberPartition):
			p.emit(w.Path, w.Path, w.Container, FilePartition, string(w.Type), "excludes other tasks from its CPUs")
		default:
			p.step.Outcomes[w.Path] = PartitionOutcome{PartitionWaits, fmt.Sprintf("the kernel gives it CPUs %s of %s", n.Effective, w.CPUs)}
		}
	}
}

// claim adds the CPUs of w to all lists that lack them, from the top down.
func (p *partitioner) claim(w DesiredPartition) {
	var chain []Path
	for a := w.Path.Parent(); a != ""; a = a.Parent() {
		chain = append(chain, a)
	}
	for _, a := range slices.Backward(chain) {
		if !w.CPUs.IsSubsetOf(p.exclusive[a]) {
			p.list(a, w.Path, w.Container, p.exclusive[a].Union(w.CPUs), "for the partition of "+w.Path.Base())
		}
	}
	if !p.View.Nodes[w.Path].Exclusive.Equal(w.CPUs) {
		p.list(w.Path, w.Path, w.Container, w.CPUs, "for its partition")
	}
}

func (p *partitioner) list(at, leaf Path, container string, cpus cpuset.Set, reason string) {
	value := cpus.String()
	if cpus.IsEmpty() {
		value = ValueNone
	}
	p.exclusive[at] = cpus
	p.emit(at, leaf, container, FileExclusive, value, reason)
}

func (p *partitioner) emit(at, leaf Path, container, file, value, reason string) {
	w := Write{Path: at, Via: File, Property: file, Value: value, Reason: reason}
	if at == leaf {
		w.Container = container
	}
	p.step.Writes = append(p.step.Writes, PartitionWrite{Write: w, Leaf: leaf})
}
