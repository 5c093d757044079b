// Package limits measures the steps that bound the daemon's speed: a write to a cgroup, a partition that begins and ends, and a call of systemd.
// It also measures cpupoold in the same steps. It runs in the guest (build tag "guest").
package limits
