// Package hosttuning lists the sources of host settings (interrupts, workqueues,
// frequency) for packages tune and power, and the file with their original
// values.
package hosttuning
