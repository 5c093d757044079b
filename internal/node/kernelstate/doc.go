// Package kernelstate holds the last known state of the cgroups that the plan
// names: their files, their records with the runtime and systemd, and the threads
// that run outside of their CPUs. Cache knows which cgroups to read again and
// which own writes are in progress, so that it can tell external writes from own
// ones. It is not safe for concurrent use.
package kernelstate
