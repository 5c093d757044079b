// Package boot is a guest test suite: its tests look at the machine that they run in, whether it is what all other suites take for
// granted.
package boot
