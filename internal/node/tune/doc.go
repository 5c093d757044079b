// Package tune holds host settings outside of cgroups: which CPUs interrupts,
// workqueues and kernel threads use. A knob is one such value. A [Source] reads and
// writes the knobs of its kinds; knobs without a mask are in [Desired.Values].
//
// [Plan] is pure: it computes the changes from the wanted values, the values of the host
// and the record. The [Tuner] runs on its own goroutine, because files of /proc and /sys can be
// slow. Each of its passes reads all values again: interrupts appear without a
// notification, irqbalance loses its settings with a restart, and other processes write.
// The original of a knob is on disk before the first change ([Undo]), until the knob is
// restored.
package tune
