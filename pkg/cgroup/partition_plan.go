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
// A cgroup gets one in steps, and what the kernel says is read again after each:
//
//	any state but the wanted one,  member; of a root with nothing but offline CPUs in its
//	or the root has its CPUs, too  list, from 7.0 on, others are put there first
//	member, not to be one          its exclusive list is cleared, then trimmed from
//	                               its ancestors, from the bottom up
//	member, to be one              siblings and ancestors are looked at; then the CPUs
//	                               go into the ancestors' lists, from the top down,
//	                               and into its own
//	member, with all lists         the type
//	as wanted, too many CPUs       its own list is cut, then its ancestors'
//	as wanted, too few             its ancestors' lists grow, then its own
//	valid, and an ancestor's       the list is filled again before anything else:
//	list does not have its CPUs    kernels before 6.16 lose the CPUs otherwise
//
// No type is ever written over anything but member, because on some kernels that is a
// crash. What is given back comes before what is taken, so that nobody waits for a
// list that is about to go. Ancestors' lists hold what their children's do; a CPU goes
// from them only when the root shows it, since kernel 6.11 loses it otherwise.

// PartitionWish is a partition that there should be.
type PartitionWish struct {
	Path      Path
	Type      PartitionType // root or isolated
	CPUs      cpuset.Set    // not empty
	Container string        // copied to the writes
	Keep      bool          // nothing is to be taken now: what it has of CPUs it keeps
	// Not says why there must be none for the time being; empty: there may.
	Not string
}

// PartitionInput is all that a step depends on.
type PartitionInput struct {
	Kernel       PartitionKernel
	Wishes       []PartitionWish
	Former       []Path // cgroups of which a partition that is not wished for is taken away
	View         PartitionView
	Online       cpuset.Set
	Housekeeping cpuset.Set // CPUs of which one must stay with the root
	// Stuck are cgroups that are to be left as they are for the time being, and why:
	// see PartitionWrite.Stuck.
	Stuck map[Path]string
}

// PartitionWrite is a write for the partition of Leaf, which may be below its Path;
// without a Leaf it is for those that are over.
type PartitionWrite struct {
	Write
	Leaf Path
}

// Stuck is the cgroup that is to be left as it is if the kernel refuses the write, and
// refusing the wish of Leaf does not help: its partition cannot be ended, or its list
// not be cut. Later steps do without what the write would have given.
func (w PartitionWrite) Stuck() Path {
	return cmp.Or(w.Leaf, w.Path)
}

// PartitionPhase is how far a wish has come.
type PartitionPhase string

// A wish that is Refused is not going to come true before something else changes, one
// that Waits may by itself.
const (
	PartitionInForce  PartitionPhase = "in force"
	PartitionUnderway PartitionPhase = "under way"
	PartitionWaits    PartitionPhase = "waits"
	PartitionRefused  PartitionPhase = "refused"
)

// PartitionOutcome is what has become of a wish, and why it is not in force.
type PartitionOutcome struct {
	Phase PartitionPhase
	Why   string
}

// PartitionStep is what is to be done now.
type PartitionStep struct {
	Writes   []PartitionWrite          // to be made in order, up to the first that fails. Then the kernel is to be asked again
	Outcomes map[Path]PartitionOutcome // of all wishes
	// Missing are online CPUs that neither the root nor any partition of the view has.
	// Some kernels take their time to give them back, and some never do.
	Missing cpuset.Set
}

// PlanPartitions returns the next writes on the way from what is to what should be.
// Without any, the wishes are as true as they can be.
func PlanPartitions(in PartitionInput) PartitionStep {
	p := &partitioner{PartitionInput: in, exclusive: make(map[Path]cpuset.Set, len(in.View.Nodes)), below: make(map[Path][]Path), root: in.View.Root,
		step: PartitionStep{Outcomes: make(map[Path]PartitionOutcome, len(in.Wishes))}}
	p.Wishes = slices.SortedFunc(slices.Values(in.Wishes), func(a, b PartitionWish) int { return cmp.Compare(a.Path, b.Path) })
	for path, n := range in.View.Nodes {
		p.exclusive[path] = n.Exclusive
		p.below[path.Parent()] = append(p.below[path.Parent()], path)
	}
	p.step.Missing = p.missing()
	for _, w := range p.Wishes {
		p.step.Outcomes[w.Path] = p.judge(w)
	}
	if p.refill(); len(p.step.Writes) == 0 {
		p.giveBack()
	}
	if len(p.step.Writes) == 0 {
		p.trim()
	}
	if len(p.step.Writes) == 0 {
		p.take()
	}
	return p.step
}

type partitioner struct {
	PartitionInput
	exclusive map[Path]cpuset.Set // lists, after the writes so far
	below     map[Path][]Path     // what is in a cgroup, in any order
	root      cpuset.Set          // that the root has, after the writes so far
	step      PartitionStep
}

// missing are the CPUs that nobody has. Those of a partition that is half torn down
// are not: they come back when it is a member.
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

// refill puts the CPUs of valid partitions back into ancestors' lists from which
// somebody has taken them. Where the kernel still lets a partition have them then, it
// can only be ended without loss when all lists have them.
func (p *partitioner) refill() {
	for _, leaf := range p.leaves() {
		n := p.View.Nodes[leaf]
		w := PartitionWish{Path: leaf, CPUs: n.Exclusive}
		if !n.State.Valid() || p.stuck(leaf) || p.within(leaf, w.CPUs) || p.rival(w).Why != "" {
			continue
		}
		p.claim(w)
	}
}

func (p *partitioner) stuck(path Path) bool {
	_, stuck := p.Stuck[path]
	return stuck
}

// leaves are the cgroups of all wishes and of all that were, sorted.
func (p *partitioner) leaves() []Path {
	all := slices.Clone(p.Former)
	for _, w := range p.Wishes {
		all = append(all, w.Path)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// giveBack makes members of those who should be, and of all whose partition is
// anything but what it should be; and takes CPUs from those who have too many.
func (p *partitioner) giveBack() {
	wishes := make(map[Path]PartitionWish, len(p.Wishes))
	for _, w := range p.Wishes {
		wishes[w.Path] = w
	}
	for _, leaf := range p.leaves() {
		n, there := p.View.Nodes[leaf]
		if !there || !n.HasCPUSet || p.stuck(leaf) {
			continue
		}
		w, wished := wishes[leaf]
		wished = wished && p.wanted(w)
		keeps := n.Exclusive.Intersection(w.CPUs)
		wide := p.widened(leaf)
		live := wished && n.State.Is(w.Type) && keeps.Overlaps(p.Online) && p.within(leaf, n.Exclusive) && p.View.Shared(leaf).IsEmpty()
		switch {
		case live && !n.Exclusive.Equal(keeps):
			p.list(leaf, leaf, w.Container, keeps, "gives CPUs back")
		case live:
		case !wide.IsEmpty():
			p.list(leaf, leaf, w.Container, wide, "with nothing but offline CPUs it could not be ended")
		case !n.State.Is(MemberPartition):
			was := n.State.String()
			if shared := p.View.Shared(leaf); !shared.IsEmpty() {
				was += fmt.Sprintf(" and has CPUs %s together with the root", shared)
			}
			p.emit(leaf, leaf, w.Container, FilePartition, string(MemberPartition), "was "+was)
		case !n.Exclusive.IsEmpty() && (!wished || !n.Exclusive.IsSubsetOf(w.CPUs)):
			p.list(leaf, leaf, w.Container, cpuset.Set{}, "gives CPUs back")
		}
	}
}

// widened is the list with which the kernel lets a root partition end of which all CPUs
// have gone offline; empty if it does anyway. A cgroup that is made a member without, is one
// by name: its list and its cpuset.cpus take no value any more that does not overlap
// what is online (EBUSY, seen on 7.2: there is no room for the deadline servers,
// dl_cpuset_cpumask_can_shrink), and its tasks run where its parent may. The list grants
// nothing, since those above do not have these CPUs. Siblings bound it as in rival. What
// kernels before 7.0 make of it is not known.
//
// That they are offline is what the view says: of a broken partition the root has all that
// are not. Online may be from before they went.
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

// trim takes from the ancestors what none of their children has any more, from the
// bottom up, if the root has it.
func (p *partitioner) trim() {
	wished := make(map[Path]cpuset.Set)
	for _, w := range p.Wishes {
		if w.Keep || !p.wanted(w) {
			continue
		}
		for a := w.Path.Parent(); a != ""; a = a.Parent() {
			wished[a] = wished[a].Union(w.CPUs)
		}
	}
	for _, a := range p.ancestors() {
		if p.stuck(a) {
			continue
		}
		n := p.View.Nodes[a]
		keep := wished[a]
		for _, child := range p.below[a] {
			keep = keep.Union(p.exclusive[child])
		}
		if over := n.Exclusive.Difference(keep).Intersection(p.View.Root); !over.IsEmpty() {
			p.list(a, "", "", n.Exclusive.Difference(over), "no cgroup in it has a partition of the rest")
		}
	}
}

// ancestors are those of all leaves, the lowest first.
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
	for _, w := range p.Wishes {
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
			p.emit(w.Path, w.Path, w.Container, FilePartition, string(w.Type), "keeps others off its CPUs")
		default:
			p.step.Outcomes[w.Path] = PartitionOutcome{PartitionWaits, fmt.Sprintf("the kernel gives it CPUs %s of %s", n.Effective, w.CPUs)}
		}
	}
}

// claim puts the CPUs of a wish into all lists that lack them, from the top down.
func (p *partitioner) claim(w PartitionWish) {
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

// list writes an exclusive list.
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
