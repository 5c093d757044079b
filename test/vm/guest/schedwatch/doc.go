// Package schedwatch loads the eBPF program of the live audit into the guest's kernel, and compares its counts
// with the kernel's counters of tasks.
package schedwatch
