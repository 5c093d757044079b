package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

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
