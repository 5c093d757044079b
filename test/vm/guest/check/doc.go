// Package check is a guest test suite: it breaks a node in one way after the other and runs the real cpupoold check, which must find
// exactly that.
//
// Most breakages are made in a mount namespace that only cpupoold sees, so that the node itself stays whole: what a file says is
// covered by another file, a directory by an empty one.
package check
