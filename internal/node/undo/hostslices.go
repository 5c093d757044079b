package undo

import (
	"strconv"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// WeightBefore is the weight that a unit had before the daemon gave it another one, 0
// if it has not.
func (l *Journal) WeightBefore(unit string) uint64 {
	o, given := l.Originals[Key{Unit: unit, File: cgroup.FileWeight}]
	if !given {
		return 0
	}
	const unset = 100 // what systemd gives units that it has no CPUWeight for
	w, err := strconv.ParseUint(o.Value, 10, 64)
	if err != nil {
		return unset
	}
	return w
}

// Amend replaces the value of an original that is there.
func (l *Journal) Amend(k Key, value string) {
	if o, ok := l.Originals[k]; ok && o.Value != value {
		o.Value = value
		l.Originals[k] = o
		l.Changes++
		l.barrier = l.Changes
	}
}
