// Package undo remembers what the daemon found before it changed a value. The
// Journal holds original values, assignments of exclusive CPUs and what units
// left; Load and Save keep it on disk as a Document. A value may be changed only
// after its original is on disk. Difference compares an original with the
// present value.
package undo
