// Package undo compares a node, as it is seen from outside, before a day of the daemon's in short and after `cpupoold restore`: cgroups,
// properties of units, interrupts and masks.
package undo
