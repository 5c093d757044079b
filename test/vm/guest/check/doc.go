// Package check is a guest test suite. It breaks a node in one way after another and runs the real cpupoold check, which must find
// exactly that.
//
// Most breakages are made in a mount namespace of cpupoold only, so that the node itself stays intact. A bind mount replaces a file
// by another one, or a directory by an empty one.
package check
