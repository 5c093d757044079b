package cgroup

import (
	"errors"
	"fmt"
	"path"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// State holds the values read from the files of a cgroup.
type State struct {
	Path Path
	// HasCPUSet reports whether the cpuset controller is enabled for the cgroup
	// (cgroup.subtree_control of its parent). Without it CPUs is empty, and
	// Effective is the value of the nearest ancestor with the controller.
	HasCPUSet bool
	CPUs      cpuset.Set // request (cpuset.cpus). Empty means inherit
	// Effective are the CPUs of the tasks (cpuset.cpus.effective): the part of the request
	// that the parent has, or all CPUs of the parent if that part is empty.
	Effective cpuset.Set
	// ParentEffective are the CPUs that the cgroup can have: the parent's
	// cpuset.cpus.effective, and the exclusive CPUs of the cgroup if it is a partition.
	ParentEffective cpuset.Set
	Partition       PartitionState // cpuset.cpus.partition
	// Mems is cpuset.mems, the NUMA nodes asked for; empty means inherit.
	// EffectiveMems is cpuset.mems.effective. Few cgroups request nodes, so it is
	// read only for these, and for the root, where it is all nodes with memory.
	Mems, EffectiveMems cpuset.Set
	HasCPU              bool   // cpu controller is enabled for the cgroup
	Weight              uint64 // cpu.weight, 1..10000; 0 without the cpu controller, and on kernels before 6.12 while Idle
	Idle                bool   // cpu.idle: the kernel refuses weights while it is set
	// Quota and Period are the values of cpu.max in microseconds. A Quota of -1 is
	// "max", no limit, and the value of a cgroup without the cpu controller.
	Quota, Period int64
	Populated     bool // populated in cgroup.events: tasks in the cgroup or below it
	// Inner is the child named `container` that crun creates below its scopes for
	// the processes; nil without one.
	Inner *State
}

// innerName is the child that crun makes with the systemd driver
// (crun.1, run.oci.systemd.subgroup).
const innerName = "container"

// idleWeight is the maximum of cpu.weight while cpu.idle is set. The kernel then takes its
// least weight (sched_group_set_idle, kernel/sched/fair.c): 0, and 1 since 6.12. With a greater weight, cpu.idle need not be read.
const idleWeight = 1

// Read returns the state of a cgroup. It returns ErrGone if the cgroup does not exist.
// It reads one file after the other: the next pass sees changes in between.
func (f *FS) Read(p Path) (State, error) {
	r := f.Reader()
	defer r.Rest()
	return r.Read(p)
}

// Read is [FS.Read].
func (r *Reader) Read(p Path) (State, error) {
	o, err := r.open(p)
	if err != nil {
		return State{}, err
	}
	s := State{Path: p}
	if err := o.readPopulated(&s); err != nil {
		return State{}, err
	}
	if err := o.readCPUSet(&s); err != nil {
		return State{}, err
	}
	if err := o.readCPU(&s); err != nil {
		return State{}, err
	}
	if err := r.readInner(&o, &s); err != nil {
		return State{}, err
	}
	return s, nil
}

// Check is Read of a cgroup whose writes a [Watcher] reports. It keeps the values of before, and
// reads cpuset.cpus.effective, which the kernel changes most often without a notice. It calls Read if
// that has changed, and for a cgroup with partitions, requested memory nodes or missing controllers.
// It does not notice that all tasks have left the cgroup, nor that the kernel has reset weights and
// quotas while the cpu controller was disabled.
func (r *Reader) Check(before State) (State, error) {
	if !before.stands() {
		return r.Read(before.Path)
	}
	around, err := r.effectiveOf(before.Path.Parent())
	if err != nil {
		return State{}, err
	}
	for s := &before; s != nil; s = s.Inner {
		o, err := r.open(s.Path)
		if err != nil {
			return r.Read(before.Path)
		}
		effective, err := o.readCPUs(fileEffective)
		if err != nil || !effective.Equal(s.Effective) {
			return r.Read(before.Path)
		}
		o.runsOn(effective)
	}
	before.ParentEffective = around
	return before, nil
}

// stands reports whether only the effective CPUs of the values that Check compares can change without
// a write to the cgroup, or a new cgroup of crun in it.
func (s *State) stands() bool {
	return s.Path != "" && s.HasCPUSet && s.HasCPU && s.Partition.Is(MemberPartition) && s.Mems.IsEmpty() && (s.Inner == nil || s.Inner.stands())
}

func (o *opened) readPopulated(s *State) error {
	if s.Path == "" { // the root has no cgroup.events
		s.Populated = true
		return nil
	}
	var err error
	s.Populated, err = readValue(o, "cgroup.events", parsePopulated)
	if errors.Is(err, ErrNoController) { // it needs none: the cgroup has been made since it was looked for
		return &Error{Op: opRead, Path: path.Join(s.Path.name(), "cgroup.events"), Err: ErrGone}
	}
	return err
}

func (o *opened) readCPUSet(s *State) error {
	effective, err := o.effectiveOf(s.Path.Parent())
	if err != nil {
		return err
	}
	s.ParentEffective = effective
	if err = o.readOwnSet(s); errors.Is(err, ErrNoController) {
		s.Effective = effective
		return nil
	}
	if err != nil || s.Path == "" {
		return err
	}
	if s.Partition, err = readValue(o, FilePartition, parseAnyPartition); errors.Is(err, ErrNoController) {
		return nil // a collected tree of files need not have it
	}
	if s.Partition.Valid() {
		s.ParentEffective = s.ParentEffective.Union(s.Effective)
	}
	return err
}

// readOwnSet reads the files of the cpuset controller that the cgroup itself has.
func (o *opened) readOwnSet(s *State) (err error) {
	if s.Effective, err = o.readCPUs(fileEffective); err != nil {
		return err
	}
	s.HasCPUSet = true
	o.runsOn(s.Effective)
	if s.Path != "" { // the root has no request
		if s.CPUs, err = o.readCPUs(FileCPUs); err != nil {
			return err
		}
		if s.Mems, err = o.readMems(FileMems); err != nil || s.Mems.IsEmpty() {
			return err
		}
	}
	s.EffectiveMems, err = o.readMems(fileEffectiveMems)
	return err
}

// readMems returns an empty set for a missing file: a collected tree of files need not
// have it.
func (o *opened) readMems(file string) (cpuset.Set, error) {
	mems, err := o.readCPUs(file)
	if errors.Is(err, ErrNoController) {
		return cpuset.Set{}, nil
	}
	return mems, err
}

// effectiveOf is nearestEffective of an open cgroup. It reads the value once for the children of the
// cgroup and for its threads.
func (r *Reader) effectiveOf(p Path) (cpuset.Set, error) {
	o, err := r.open(p)
	if err != nil {
		return cpuset.Set{}, err
	}
	if o.dir != nil && o.dir.known {
		return o.dir.effective, nil
	}
	effective, err := r.nearestEffective(p)
	if err == nil {
		o.runsOn(effective)
	}
	return effective, err
}

func (o *opened) runsOn(effective cpuset.Set) {
	if o.dir != nil {
		o.dir.known, o.dir.effective = true, effective
	}
}

// nearestEffective is the effective set of p or of the nearest ancestor that
// has the controller: the tasks of p run on it.
func (r *Reader) nearestEffective(p Path) (cpuset.Set, error) {
	for {
		o, err := r.open(p)
		if err != nil {
			return cpuset.Set{}, err
		}
		effective, err := o.readCPUs(fileEffective)
		if p == "" || !errors.Is(err, ErrNoController) {
			return effective, err
		}
		p = p.Parent()
	}
}

func (o *opened) readCPU(s *State) error {
	s.Quota = -1
	if s.Path == "" { // the root has no siblings
		return nil
	}
	var err error
	s.Weight, err = readValue(o, FileWeight, parseWeight)
	switch {
	case errors.Is(err, ErrNoController):
		return nil
	case err != nil:
		return err
	}
	s.HasCPU = true
	if s.Weight <= idleWeight {
		if s.Idle, err = readValue(o, "cpu.idle", parseFlag); err != nil && !errors.Is(err, ErrNoController) {
			return err // cpu.idle is there since kernel 5.15
		}
	}
	data, err := o.read(FileMax)
	if errors.Is(err, ErrNoController) {
		return nil // CONFIG_CFS_BANDWIDTH is off: there are no quotas
	}
	if err == nil {
		if s.Quota, s.Period, err = parseMax(data); err != nil {
			err = &Error{Op: opRead, Path: string(s.Path.Join(FileMax)), Err: err}
		}
	}
	return err
}

func (r *Reader) readInner(scope *opened, s *State) error {
	path, ok := s.Path.Inner()
	if !ok || scope.isLeaf() {
		return nil
	}
	inner := State{Path: path, ParentEffective: s.Effective}
	o, err := r.open(inner.Path)
	if err == nil {
		inner.Populated, err = readValue(&o, "cgroup.events", parsePopulated)
	}
	if err == nil {
		if err = o.readOwnSet(&inner); errors.Is(err, ErrNoController) {
			inner.HasCPUSet, inner.Effective, err = false, s.Effective, nil
		}
	}
	if err == nil {
		err = o.readCPU(&inner)
	}
	switch {
	case err == nil:
		s.Inner = &inner
	case !errors.Is(err, ErrGone):
		return err
	}
	return nil
}

const (
	fileEffective     = "cpuset.cpus.effective"
	fileEffectiveMems = "cpuset.mems.effective"
)

// Verify compares the kernel's state with the target, after the writes. The kernel
// accepts requests that it does not grant: without an error a cgroup runs on its
// parent's CPUs if the parent has no CPU of the request. The error names each
// difference and its likely cause; it is nil if the state matches t.
func Verify(t Target, s State) error {
	return errors.Join(
		verifyCPUs(t, s),
		verifyInner(t, s),
		verifyMems(t, s),
		verifyWeight(t, s),
		verifyQuota(t, s),
	)
}

func verifyCPUs(t Target, s State) error {
	switch {
	case t.CPUs.IsEmpty() || s.Effective.Equal(t.CPUs):
		return nil
	case t.Confines() && s.HasCPUSet && s.CPUs.Equal(t.CPUs):
		return nil // owners in partitions have the rest
	case !s.HasCPUSet:
		return fmt.Errorf("%s runs on CPUs %s, want %s: the parent does not enable the cpuset controller",
			s.Path, s.Effective, t.CPUs)
	case !s.CPUs.Equal(t.CPUs):
		return fmt.Errorf("%s runs on CPUs %s, want %s: cpuset.cpus is %q, another process wrote it",
			s.Path, s.Effective, t.CPUs, s.CPUs)
	case !t.CPUs.Overlaps(s.ParentEffective):
		return fmt.Errorf("%s runs on CPUs %s, want %s: %q has no CPU of them, so the kernel uses its set",
			s.Path, s.Effective, t.CPUs, s.Path.Parent())
	case s.Effective.IsSubsetOf(t.CPUs):
		return fmt.Errorf("%s runs on CPUs %s, want %s: the rest is offline, in a partition, or not in %q (%s)",
			s.Path, s.Effective, t.CPUs, s.Path.Parent(), s.ParentEffective)
	}
	return fmt.Errorf("%s runs on CPUs %s, want %s", s.Path, s.Effective, t.CPUs)
}

// verifyInner looks at the child in which crun keeps the processes: it cannot
// have more than the scope, but less.
func verifyInner(t Target, s State) error {
	if t.CPUs.IsEmpty() || s.Inner == nil || s.Inner.Effective.Equal(s.Effective) {
		return nil
	}
	return fmt.Errorf("%s runs on CPUs %s, its scope on %s: cpuset.cpus of the former is %q",
		s.Inner.Path, s.Inner.Effective, s.Effective, s.Inner.CPUs)
}

func verifyWeight(t Target, s State) error {
	switch {
	case t.Weight == 0 || s.Weight == t.Weight:
		return nil
	case !s.HasCPU:
		return fmt.Errorf("%s has no cpu.weight, want %d: the parent does not enable the cpu controller", s.Path, t.Weight)
	case s.Idle:
		return fmt.Errorf("%s has cpu.idle set, want cpu.weight %d: it is not changed", s.Path, t.Weight)
	}
	return fmt.Errorf("%s has cpu.weight %d, want %d", s.Path, s.Weight, t.Weight)
}
