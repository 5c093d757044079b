// Package kernelstate holds what the kernel, the runtime and systemd reported
// about the cgroups of the plan. Cache knows which cgroups to read again, which
// writes are under way, and which values the daemon itself has written, so that
// it can tell an external write from its own.
package kernelstate
