// Jitter measures for how long a program on a CPU does not run, and by what it is
// interrupted, with and without cpupoold, under load: docs/how-to/measure-jitter.md.
package main
