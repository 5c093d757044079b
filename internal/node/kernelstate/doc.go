// Package kernelstate holds the last known state of the cgroups in the plan: the
// values of their files and the records of the runtime and systemd. Cache knows
// which cgroups to read again. Its OwnWrites are the daemon's own writes, so that
// it can distinguish external writes from them. Its Threads are those that run
// outside of their cgroup's CPUs. It is not safe for concurrent use.
package kernelstate
