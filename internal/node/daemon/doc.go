// Package daemon is the event loop that keeps the cgroups of a node in the desired state.
//
// One goroutine, the event loop, holds all state ([Loop]). Sources post events to its
// mailbox: the runtime, the configuration file, systemd, and workers that have finished
// a slow call. After a batch of events the loop makes a pass: it decides, reads the
// cgroups that are new or stale, compares, and writes. It writes cgroup files itself,
// because that takes microseconds. Calls to the runtime, to systemd and to the disk run
// in workers, so that a stalled service cannot delay the move of a container.
//
// Readers get an immutable snapshot of the last pass.
package daemon
