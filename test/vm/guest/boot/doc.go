// Package boot is a guest test suite. It checks the properties of the machine that all other suites rely on.
package boot
