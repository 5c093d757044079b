// Package kernelstate holds the last known state of the cgroups in the plan: the
// values of their files and the records of the runtime and systemd. It also holds
// the threads that run outside of their cgroup's CPUs. Cache knows which cgroups
// to read again and which own writes are in progress. Therefore it can distinguish
// external writes from own writes. It is not safe for concurrent use.
package kernelstate
