// Package kernelstate holds the last known state of the cgroups in the plan: the
// values of their files and the records of the runtime and systemd. Cache knows
// which cgroups to read again. OwnWrites holds the daemon's own writes, because
// Cache distinguishes external writes from them. Threads holds the threads that
// run outside of their cgroup's CPUs. No type is safe for concurrent use.
package kernelstate
