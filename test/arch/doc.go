// Package arch holds the tests of the architecture: which package may import
// which, what pure packages must not touch, how long a file may be. The rules
// are those of ARCHITECTURE.md; .golangci.yml states the imports once more for
// editors, and a test keeps the two equal.
package arch
