// Package undo remembers the values that the daemon found before it changed
// them, so that restore can put them back.
//
// A Journal is the event loop's copy: the Originals, assignments of exclusive CPUs
// and other facts that only a running daemon knows. A worker saves it to disk as
// a Document. The newest changes are also in a file in memory (WriteRecent).
// A value may be changed only after its original is in one of the files
// (Journal.Blocks), unless the disk does not answer in time. Original values are
// never replaced while the cgroup exists. Original.Difference compares one with
// the present value.
package undo
