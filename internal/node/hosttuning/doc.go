// Package hosttuning finds the settings of this machine outside of cgroups
// (interrupts, receive queues, workqueues, kernel threads, frequencies) and the
// file with their original values.
//
// Packages tune and power decide about the values and write them; tune does so
// in a goroutine of its own. This package opens /proc and /sys
// of the host, also from within a container.
package hosttuning
