package cgroup

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PartitionType is one of the words that cpuset.cpus.partition takes.
type PartitionType string

// A root partition has exclusive CPUs, and its own scheduling domain. In an isolated one the
// scheduler also balances no load. A member is no partition.
const (
	MemberPartition   PartitionType = "member"
	RootPartition     PartitionType = "root"
	IsolatedPartition PartitionType = "isolated"
)

// Files of partitions, for writes that go Via File.
const (
	FilePartition = "cpuset.cpus.partition"
	FileExclusive = "cpuset.cpus.exclusive"
)

// ValueNone clears a list of CPUs: the kernel ignores a write of no bytes.
const ValueNone = "\n"

// PartitionState is the value of cpuset.cpus.partition. The zero value is a cgroup
// without the file: no partition, like a member.
type PartitionState struct {
	Type PartitionType
	// Invalid reports that the kernel does not grant the type. Why is its reason: empty
	// if a sibling's cpuset.cpus has broken the partition (kernels to 6.19). Then
	// all cgroups lack its CPUs until it becomes a member, and the kernel may
	// crash on a write of any other type (6.16 to 6.18).
	Invalid bool
	Why     string
}

// Is reports whether the cgroup is a valid partition of the type, or a member.
func (s PartitionState) Is(t PartitionType) bool { return !s.Invalid && s.typ() == t }

// Valid reports whether the cgroup is a partition, and in force.
func (s PartitionState) Valid() bool { return !s.Invalid && s.typ() != MemberPartition }

func (s PartitionState) typ() PartitionType {
	return cmp.Or(s.Type, MemberPartition)
}

// String returns the text that the kernel prints.
func (s PartitionState) String() string {
	switch {
	case !s.Invalid:
		return string(s.typ())
	case s.Why == "":
		return string(s.Type) + " invalid"
	}
	return fmt.Sprintf("%s invalid (%s)", s.Type, s.Why)
}

// parsePartition reads cpuset.cpus.partition: "member", "root", "isolated", the last
// two with " invalid" or " invalid (REASON)" behind.
func parsePartition(data []byte) (PartitionState, error) {
	s, err := line(data)
	if err != nil {
		return PartitionState{}, err
	}
	word, rest, more := strings.Cut(s, " ")
	state := PartitionState{Type: PartitionType(word)}
	switch state.Type {
	case MemberPartition:
		if !more {
			return state, nil
		}
	case RootPartition, IsolatedPartition:
		if !more {
			return state, nil
		}
		if state.Invalid = true; rest == "invalid" {
			return state, nil
		}
		why, opened := strings.CutPrefix(rest, "invalid (")
		if why, closed := strings.CutSuffix(why, ")"); opened && closed && why != "" {
			state.Why = why
			return state, nil
		}
	}
	return PartitionState{}, fmt.Errorf("%w: partition %s", errFormat, abbreviate(s))
}

// parseAnyPartition takes words that no kernel is known to print for a partition that is
// not in force: a cgroup can be placed whatever they mean, and others be partitions.
func parseAnyPartition(data []byte) (PartitionState, error) {
	state, err := parsePartition(data)
	if err != nil {
		return PartitionState{Invalid: true, Why: err.Error()}, nil //nolint:nilerr // it is in the state
	}
	return state, nil
}

// PartitionKernel describes a kernel's support of remote partitions: partitions whose
// parent is no partition.
type PartitionKernel struct {
	// Remote reports that cpuset.cpus.exclusive of a cgroup and its ancestors suffices for a
	// partition, whatever their cpuset.cpus (6.11 and later).
	Remote  bool
	Settled bool // cpuset.cpus of a sibling cannot break one (7.0 and later)
}

// PartitionsOf returns the support of a kernel version. Distributions backport
// cpusets to older kernels, with defects that the version does not show: a kernel with an
// older version counts as one without support.
func PartitionsOf(major, minor int) PartitionKernel {
	return PartitionKernel{
		Remote:  major > 6 || major == 6 && minor >= 11,
		Settled: major >= 7,
	}
}

// ParsePartitionKernel is PartitionsOf a kernel release, such as
// "6.12.107+deb13-cloud-amd64".
func ParsePartitionKernel(release string) (PartitionKernel, error) {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return PartitionKernel{}, fmt.Errorf("parse kernel release %s: want MAJOR.MINOR first", abbreviate(release))
	}
	return PartitionsOf(major, minor), nil
}

// PartitionNode is a cgroup as far as partitions go.
type PartitionNode struct {
	HasCPUSet bool // cgroup has the files at all
	State     PartitionState
	// CPUs is cpuset.cpus, Exclusive cpuset.cpus.exclusive, Effective
	// cpuset.cpus.effective.
	CPUs, Exclusive, Effective cpuset.Set
	whole                      bool // all four files have been read
}

// PartitionView holds the values of some cgroups, their ancestors, and the siblings of all
// these. Siblings without CPUs in their lists block no partition and are none. Their
// other values are not read.
type PartitionView struct {
	Root  cpuset.Set // root's cpuset.cpus.effective: online, and in no partition
	Nodes map[Path]PartitionNode
}

// Shared returns the CPUs of a valid partition that the root has as well: the kernel lets
// other tasks use them. If no other CPU is online, it gives the CPUs of all partitions to
// the root (cpuset_handle_hotplug, since 6.7, by reading). It takes them back only when the
// partition is created again. 7.2 marks the partition as invalid then.
func (v PartitionView) Shared(p Path) cpuset.Set {
	if n := v.Nodes[p]; n.State.Valid() {
		return n.Effective.Intersection(v.Root)
	}
	return cpuset.Set{}
}

// Listed returns the cgroups that have an exclusive list or are partitions.
func (f *FS) Listed() (all []Path, err error) {
	err = f.eachPartition(func(p Path, n PartitionNode) {
		if !n.Exclusive.IsEmpty() || !n.State.Is(MemberPartition) {
			all = append(all, p)
		}
	})
	return all, err
}

// Partitioned returns the CPUs of all valid partitions of the tree. A CPU that is neither in the
// root nor in a partition is lost.
func (f *FS) Partitioned() (all cpuset.Set, err error) {
	err = f.eachPartition(func(_ Path, n PartitionNode) {
		if n.State.Valid() {
			all = all.Union(n.Effective)
		}
	})
	return all, err
}

// maxNested is the maximum number of cgroups that Listed and Partitioned read below a container or a unit.
const maxNested = 64

// eachPartition calls visit with all cgroups but the root that can be partitions. A container or a unit that is no
// slice chooses the cgroups below it. So these are read only if one of them can be a partition, up to maxNested of
// them. The parent of a local partition is a valid partition. A remote partition needs cpuset.cpus.exclusive in
// its ancestors (cpuset.cpus.partition in Documentation/admin-guide/cgroup-v2.rst, since 6.7).
func (f *FS) eachPartition(visit func(Path, PartitionNode)) error {
	r := f.Reader()
	defer r.Rest()
	return r.partitions("", nil, visit)
}

// partitions calls visit with p and the cgroups below it. Left is the number of cgroups that may be read below a
// container or unit, nil outside of these; an error below one is skipped.
func (r *Reader) partitions(p Path, left *int, visit func(Path, PartitionNode)) error {
	nested := left != nil
	if p != "" {
		n, err := r.partition(p, true)
		if err != nil {
			if nested || errors.Is(err, ErrGone) {
				return nil
			}
			return err
		}
		visit(p, n)
		if !nested && choosesChildren(p) {
			if n.Exclusive.IsEmpty() && !n.State.Valid() {
				return nil
			}
			room := maxNested
			left = &room
		}
	}
	limit := math.MaxInt - 1
	if left != nil {
		limit = *left
	}
	children, _, err := r.children(p, limit)
	if err != nil {
		if left != nil || p != "" && errors.Is(err, ErrGone) {
			return nil
		}
		return err
	}
	for _, child := range children {
		if left != nil {
			if *left == 0 {
				return nil
			}
			*left--
		}
		if err := r.partitions(child, left, visit); err != nil {
			return err
		}
	}
	return nil
}

// choosesChildren reports whether processes in p choose the cgroups below it: a container, or a service or scope
// outside of pods.
func choosesChildren(p Path) bool {
	if p.InPod() {
		return p.Parent().InPod()
	}
	return strings.HasSuffix(string(p), ".scope") || strings.HasSuffix(string(p), ".service")
}

// # Parking
//
// CPUs without an owner can be held in one isolated partition of the daemon's own, without
// processes: then no task runs on them until they get an owner. It is planned like any other
// partition (PlanPartitions): CPUs for an owner are released before they are taken, from
// the leaf up. Free CPUs are taken back from the top down.
//
// It is two cgroups deep, because a child of the root would be a local
// partition, which cpuset.cpus of every slice could break. The name has no suffix of a unit:
// systemd ignores such a directory. It would take over cpupoold.slice with the first unit in
// it, and remove it with the last.
const (
	ParkingTop Path = "cpupoold"
	Parking    Path = ParkingTop + "/parking"
)

const (
	fileSubtree  = "cgroup.subtree_control"
	enableCPUSet = "+cpuset"
)

// MakeParking creates the cgroup Parking and its parent unless they exist. It enables the cpuset
// controller on the way down, also for the children of the root, where it is off unless
// another program needs it.
func (f *FS) MakeParking() error {
	if f.readOnly {
		return &Error{Op: opMake, Path: string(Parking), Err: ErrReadOnly}
	}
	for _, p := range []Path{ParkingTop, Parking} {
		if err := f.enableCPUSet(p.Parent()); err != nil {
			return err
		}
		if err := f.tree.Mkdir(p.name()); err != nil && !errors.Is(err, fs.ErrExist) {
			return &Error{Op: opMake, Path: string(p), Err: err}
		}
	}
	return nil
}

// enableCPUSet enables the cpuset controller for the children of a cgroup, if necessary.
func (f *FS) enableCPUSet(p Path) error {
	has, err := f.ReadFile(p, fileSubtree)
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(string(has)) {
		if "+"+word == enableCPUSet {
			return nil
		}
	}
	return f.Write(p, fileSubtree, enableCPUSet)
}

// RemoveParking removes the cgroups of MakeParking, if they exist. Parking must not be a
// partition any longer: kernel 6.11 loses the CPUs of a removed partition.
func (f *FS) RemoveParking() error {
	if f.readOnly {
		return &Error{Op: opRemove, Path: string(Parking), Err: ErrReadOnly}
	}
	for _, p := range []Path{Parking, ParkingTop} {
		if err := f.tree.Rmdir(p.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; it is made by the daemon, and must not contain other cgroups", &Error{Op: opRemove, Path: string(p), Err: err})
		}
	}
	return nil
}
