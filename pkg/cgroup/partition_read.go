package cgroup

import (
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// # Reading partitions
//
//   - cpuset.cpus.effective of the root, each time: CPUs of the root are in no partition.
//   - all four files of the cgroups that should be partitions, and of their ancestors:
//     writes are read back.
//   - cpuset.cpus and cpuset.cpus.exclusive of the siblings of all these, because the kernel
//     rejects some lists that overlap the new one, and a parent keeps the CPUs in its children's
//     lists. The rest of a sibling is read if one of its lists has CPUs: it can
//     be a partition then.
//
// There are as many siblings as there are pods. A [PartitionMemory] reads them once.

// PartitionMemory caches the partition files between reads. The caller must report changes of
// the cgroups: it calls Forget after a write, and Appeared or Gone for a new or removed
// cgroup. Uncertain values are read again anyway: the cached state of a partition is dropped
// if the root has CPUs of it. A PartitionMemory is for one goroutine.
type PartitionMemory struct {
	fs       *FS
	nodes    map[Path]PartitionNode
	children map[Path][]Path // sorted
}

// PartitionMemory returns an empty cache.
func (f *FS) PartitionMemory() *PartitionMemory {
	return &PartitionMemory{fs: f, nodes: make(map[Path]PartitionNode), children: make(map[Path][]Path)}
}

// ReadPartitions reads the cgroups for PlanPartitions. The view omits removed
// cgroups.
func (f *FS) ReadPartitions(leaves []Path) (PartitionView, error) {
	return f.PartitionMemory().Read(leaves)
}

// Read is [FS.ReadPartitions], with the cache.
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
	for _, parent := range slices.Sorted(maps.Keys(parents)) { // neighbours share open directories
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

// list returns the children of a cgroup, none if the cgroup no longer exists.
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

func (m *PartitionMemory) look(r *Reader, v *PartitionView, p Path, whole bool) error {
	n, known := m.nodes[p]
	if known && (n.whole || !whole) && (!n.State.Valid() || !n.Effective.Overlaps(v.Root)) {
		v.Nodes[p] = n
		return nil
	}
	n, err := r.partition(p, whole)
	if errors.Is(err, ErrGone) {
		m.Gone(p)
		return nil
	}
	if err == nil {
		m.nodes[p], v.Nodes[p] = n, n
	}
	return err
}

// partition reads one cgroup: all four files, or the files of a sibling that matter.
func (r *Reader) partition(p Path, whole bool) (n PartitionNode, err error) {
	o, err := r.open(p)
	if err != nil {
		return PartitionNode{}, err
	}
	n.CPUs, err = o.readCPUs(FileCPUs)
	if errors.Is(err, ErrNoController) {
		return PartitionNode{whole: true}, nil
	}
	if err == nil {
		n.Exclusive, err = o.readCPUs(FileExclusive)
	}
	if err != nil && !errors.Is(err, ErrNoController) { // it is there since 6.7
		return PartitionNode{}, err
	}
	n.HasCPUSet = true
	if !whole && n.CPUs.IsEmpty() && n.Exclusive.IsEmpty() {
		return n, nil
	}
	n.whole = true
	n.State, err = readValue(&o, FilePartition, parseAnyPartition)
	if errors.Is(err, ErrNoController) {
		return PartitionNode{whole: true}, nil
	}
	if err == nil {
		n.Effective, err = o.readCPUs(fileEffective)
	}
	return n, err
}

// Nodes are the cgroups that are known.
func (m *PartitionMemory) Nodes() iter.Seq2[Path, PartitionNode] { return maps.All(m.nodes) }

// Forget drops a cgroup from the cache.
func (m *PartitionMemory) Forget(p Path) { delete(m.nodes, p) }

// ForgetUp drops a cgroup and its ancestors from the cache, and expects each of them among
// the children of its parent, also without a call of Appeared.
func (m *PartitionMemory) ForgetUp(p Path) {
	for ; p != ""; p = p.Parent() {
		delete(m.nodes, p)
		m.expect(p)
	}
}

// expect adds a cgroup to the known children of its parent.
func (m *PartitionMemory) expect(p Path) {
	siblings, known := m.children[p.Parent()]
	if i, there := slices.BinarySearch(siblings, p); known && !there {
		m.children[p.Parent()] = slices.Insert(slices.Clip(siblings), i, p)
	}
}

// ForgetIn drops all cgroups below p from the cache, and their lists of children. Of the root it drops
// the whole cache.
func (m *PartitionMemory) ForgetIn(p Path) {
	prefix := string(p) + "/"
	in := func(q Path) bool { return p == "" || strings.HasPrefix(string(q), prefix) }
	maps.DeleteFunc(m.nodes, func(q Path, _ PartitionNode) bool { return in(q) })
	maps.DeleteFunc(m.children, func(q Path, _ []Path) bool { return q == p || in(q) })
}

// Keep drops the cgroups that do not satisfy node, and the lists of children of cgroups that
// do not satisfy children.
func (m *PartitionMemory) Keep(node, children func(Path) bool) {
	maps.DeleteFunc(m.nodes, func(p Path, _ PartitionNode) bool { return !node(p) })
	maps.DeleteFunc(m.children, func(p Path, _ []Path) bool { return !children(p) })
}

// Appeared records a new cgroup, which may replace another one of that name.
func (m *PartitionMemory) Appeared(p Path) {
	m.drop(p)
	m.expect(p)
}

// Gone records that a cgroup no longer exists.
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

// Same reads a cached cgroup, and reports whether it is unchanged; known reports whether
// it was cached.
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

// RootCPUs describes the CPUs of the root of the tree, and the partitions below it.
type RootCPUs struct {
	// Effective is cpuset.cpus.effective of the root, with the CPUs of partitions that have ended
	// during the reading.
	Effective cpuset.Set
	// Nested reports whether the root is a cgroup of a larger tree, as in a cgroup namespace of
	// a container. Only such a root has the file cpuset.cpus.
	Nested bool
	// Partitions holds the CPUs of all valid partitions below the root. It is nil if the root
	// has all CPUs of the question.
	Partitions map[Path]cpuset.Set
}

// RootEffective returns cpuset.cpus.effective of the root.
func (f *FS) RootEffective() (cpuset.Set, error) { return readOne(f, "", fileEffective, parseCPUs) }

// RootCPUs reads the CPUs of the root. If the root lacks a CPU of online, RootCPUs also reads all
// cgroups that can be partitions.
func (f *FS) RootCPUs(online cpuset.Set) (root RootCPUs, err error) {
	if root.Effective, err = f.RootEffective(); err != nil || online.IsSubsetOf(root.Effective) {
		return root, err
	}
	switch _, err := f.ReadFile("", FileCPUs); {
	case err == nil:
		root.Nested = true
	case !errors.Is(err, ErrNoController):
		return root, err
	}
	root.Partitions = make(map[Path]cpuset.Set)
	err = f.eachPartition(func(p Path, n PartitionNode) {
		if n.State.Valid() {
			root.Partitions[p] = n.Effective
		}
	})
	if err != nil {
		return root, err
	}
	again, err := f.RootEffective()
	root.Effective = root.Effective.Union(again)
	return root, err
}
