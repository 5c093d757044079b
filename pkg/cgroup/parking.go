package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// # Parking
//
// CPUs that nobody owns can be held in one isolated partition of the daemon's own,
// without a process: then nothing runs there until an owner comes. It is a wish like
// any other (PlanPartitions): what an owner gets is given back before it is taken, from
// the leaf up, and what is free again is taken from the top down.
//
// It is two cgroups deep, because one whose parent is the root would be a local
// partition, which cpuset.cpus of every slice could break. The name ends like no unit's:
// systemd leaves a directory alone that cannot be a unit's, whereas it would take over
// cpupoold.slice with the first unit in it, and remove it with the last.
const (
	ParkingTop Path = "cpupoold"
	Parking    Path = ParkingTop + "/parking"
)

const (
	fileSubtree  = "cgroup.subtree_control"
	enableCPUSet = "+cpuset"
)

// MakeParking makes the cgroup Parking, as far as it is not there. It enables the cpuset
// controller on the way down, for the children of the root too, where it is off while
// nobody else needs it.
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

// enableCPUSet gives the children of a cgroup the cpuset controller, unless they have it.
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

// RemoveParking removes what MakeParking has made, if it is there. It must not be a
// partition any more: on 6.11 the kernel loses the CPUs of one that is removed.
func (f *FS) RemoveParking() error {
	if f.readOnly {
		return &Error{Op: opRemove, Path: string(Parking), Err: ErrReadOnly}
	}
	for _, p := range []Path{Parking, ParkingTop} {
		if err := f.tree.Rmdir(p.name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w; it is made by the daemon, and nothing else may be in it", &Error{Op: opRemove, Path: string(p), Err: err})
		}
	}
	return nil
}
