package cgroup

import (
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
)

// # What a look at partitions reads
//
//   - cpuset.cpus.effective of the root, each time: CPUs that it has no partition has.
//   - all four files of the cgroups that are to be partitions, and of what they are in:
//     what has been written is read back.
//   - cpuset.cpus and cpuset.cpus.exclusive of the siblings of all these, since the kernel
//     does not suffer every list beside the new one, and what a child has in its list its
//     parent keeps. The rest of a sibling is read where one of its lists has CPUs: it can
//     be a partition then.
//
// There are as many siblings as there are pods. A [PartitionMemory] has them read once.

// PartitionMemory is what is known of partitions from one look to the next. It is for
// who hears of what others do to the cgroups, and says so: what has been written is to be
// forgotten, what has come or gone to be told. What is not certain is read again anyway: a
// partition of which the root has CPUs is none, whatever is known of it. One goroutine can
// use it.
type PartitionMemory struct {
	fs       *FS
	nodes    map[Path]rememberedNode
	children map[Path][]Path // sorted
}

type rememberedNode struct {
	PartitionNode
	whole bool // all of it has been read
}

// PartitionMemory makes one that knows of nothing.
func (f *FS) PartitionMemory() *PartitionMemory {
	return &PartitionMemory{fs: f, nodes: make(map[Path]rememberedNode), children: make(map[Path][]Path)}
}

// ReadPartitions looks at the cgroups for PlanPartitions. Those that are gone are not
// in the view.
func (f *FS) ReadPartitions(leaves []Path) (PartitionView, error) {
	return f.PartitionMemory().Read(leaves)
}

// Read is [FS.ReadPartitions] of what is not known.
func (m *PartitionMemory) Read(leaves []Path) (PartitionView, error) {
	r := m.fs.Reader()
	defer r.Rest()
	v := PartitionView{Nodes: make(map[Path]PartitionNode, len(m.nodes))}
	var err error
	if v.Root, err = r.nearestEffective(""); err != nil {
		return PartitionView{}, err
	}
	whole := make(map[Path]bool)
	parents := make(map[Path]bool)
	for _, leaf := range leaves {
		for p := leaf; p != "" && !whole[p]; p = p.Parent() {
			whole[p], parents[p.Parent()] = true, true
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(parents)) { // what is near to the last one is read for less
		children, err := m.list(r, parent)
		if err != nil {
			return PartitionView{}, err
		}
		for _, p := range children {
			if err := m.look(r, &v, p, whole[p]); err != nil {
				return PartitionView{}, err
			}
		}
	}
	return v, nil
}

// list returns the children of a cgroup, none of one that is gone.
func (m *PartitionMemory) list(r *Reader, p Path) ([]Path, error) {
	if children, known := m.children[p]; known {
		return children, nil
	}
	children, _, err := r.children(p, math.MaxInt-1)
	if errors.Is(err, ErrGone) {
		return nil, nil
	}
	if err == nil {
		m.children[p] = children
	}
	return children, err
}

// look puts a cgroup into a view.
func (m *PartitionMemory) look(r *Reader, v *PartitionView, p Path, whole bool) error {
	n, known := m.nodes[p]
	if known && (n.whole || !whole) && (!n.State.Valid() || !n.Effective.Overlaps(v.Root)) {
		v.Nodes[p] = n.PartitionNode
		return nil
	}
	n, err := r.partition(p, whole)
	if errors.Is(err, ErrGone) {
		m.Gone(p)
		return nil
	}
	if err == nil {
		m.nodes[p], v.Nodes[p] = n, n.PartitionNode
	}
	return err
}

// partition reads one cgroup: all of it, or what matters of a sibling.
func (r *Reader) partition(p Path, whole bool) (n rememberedNode, err error) {
	o, err := r.open(p)
	if err != nil {
		return rememberedNode{}, err
	}
	n.CPUs, err = o.readCPUs(FileCPUs)
	if errors.Is(err, ErrNoController) {
		return rememberedNode{whole: true}, nil
	}
	if err == nil {
		n.Exclusive, err = o.readCPUs(FileExclusive)
	}
	if err != nil && !errors.Is(err, ErrNoController) { // it is there since 6.7
		return rememberedNode{}, err
	}
	n.HasCPUSet = true
	if !whole && n.CPUs.IsEmpty() && n.Exclusive.IsEmpty() {
		return n, nil
	}
	n.whole = true
	n.State, err = readValue(&o, FilePartition, parseAnyPartition)
	if errors.Is(err, ErrNoController) {
		return rememberedNode{whole: true}, nil
	}
	if err == nil {
		n.Effective, err = o.readCPUs(fileEffective)
	}
	return n, err
}

// Nodes are the cgroups that are known.
func (m *PartitionMemory) Nodes() iter.Seq2[Path, PartitionNode] {
	return func(yield func(Path, PartitionNode) bool) {
		for p, n := range m.nodes {
			if !yield(p, n.PartitionNode) {
				return
			}
		}
	}
}

// Clear forgets everything.
func (m *PartitionMemory) Clear() {
	clear(m.nodes)
	clear(m.children)
}

// Forget has a cgroup read again.
func (m *PartitionMemory) Forget(p Path) { delete(m.nodes, p) }

// ForgetUp has a cgroup read again, and all that it is in: where they should be, if nobody has
// told of them yet.
func (m *PartitionMemory) ForgetUp(p Path) {
	for ; p != ""; p = p.Parent() {
		delete(m.nodes, p)
		m.expect(p)
	}
}

// expect has a cgroup looked for in the one around it, if it is known what is in that.
func (m *PartitionMemory) expect(p Path) {
	siblings, known := m.children[p.Parent()]
	if i, there := slices.BinarySearch(siblings, p); known && !there {
		m.children[p.Parent()] = slices.Insert(slices.Clip(siblings), i, p)
	}
}

// ForgetIn has all cgroups in another one read again, and which there are.
func (m *PartitionMemory) ForgetIn(p Path) {
	prefix := string(p) + "/"
	in := func(q Path) bool { return p == "" || strings.HasPrefix(string(q), prefix) }
	maps.DeleteFunc(m.nodes, func(q Path, _ rememberedNode) bool { return in(q) })
	maps.DeleteFunc(m.children, func(q Path, _ []Path) bool { return q == p || in(q) })
}

// Keep forgets the cgroups that do not satisfy node, and of which cgroups the children are of
// those that do not satisfy children.
func (m *PartitionMemory) Keep(node, children func(Path) bool) {
	maps.DeleteFunc(m.nodes, func(p Path, _ rememberedNode) bool { return !node(p) })
	maps.DeleteFunc(m.children, func(p Path, _ []Path) bool { return !children(p) })
}

// Appeared tells of a cgroup that there is, which may be another one than before.
func (m *PartitionMemory) Appeared(p Path) {
	m.drop(p)
	m.expect(p)
}

// Gone tells of a cgroup that is not there any more.
func (m *PartitionMemory) Gone(p Path) {
	m.drop(p)
	siblings := m.children[p.Parent()]
	if i, there := slices.BinarySearch(siblings, p); there {
		m.children[p.Parent()] = slices.Delete(slices.Clone(siblings), i, i+1)
	}
}

func (m *PartitionMemory) drop(p Path) {
	delete(m.nodes, p)
	m.ForgetIn(p)
}

// Same reads a cgroup that is known, and says whether it is as it was known to be; known
// says that it was.
func (m *PartitionMemory) Same(p Path) (same, known bool) {
	was, known := m.nodes[p]
	if !known {
		return false, false
	}
	r := m.fs.Reader()
	defer r.Rest()
	n, err := r.partition(p, was.whole)
	if err != nil {
		delete(m.nodes, p)
		return false, true
	}
	m.nodes[p] = n
	return n.State == was.State && n.CPUs.Equal(was.CPUs) && n.Exclusive.Equal(was.Exclusive), true
}
