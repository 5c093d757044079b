// Package limits measures, each by itself, the steps that no daemon gets below: a write to a cgroup, a partition that begins and ends, a call of
// systemd. Beside each is what cpupoold takes for the same. It runs in the guest (build tag "guest").
package limits
