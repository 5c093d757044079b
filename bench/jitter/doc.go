// Jitter measures how long a program on a CPU does not run, and the interrupts during
// that time, with and without cpupoold, under load: docs/how-to/measure-jitter.md.
package main
