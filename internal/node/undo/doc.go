// Package undo remembers the values that the daemon found before it changed
// them, so that restore can put them back.
//
// A Journal is the event loop's copy: original values, assignments of exclusive
// CPUs and other facts that only a running daemon knows. A worker saves it to
// disk as a Document. A value may be changed only after its original is on disk
// (Journal.Blocks), unless the disk does not answer in time. Original values are
// never replaced while the cgroup exists. Compare returns the difference between
// an original and the present value.
package undo
