// Jitter measures for how long a program on a CPU does not run, and by what it is
// interrupted, with and without cpupoold, under load: docs/jitter.md.
package main
