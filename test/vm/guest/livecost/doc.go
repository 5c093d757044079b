// Package livecost measures the cost of the live audit's eBPF program for tasks that switch at full speed. It runs in the guest (build tag
// "guest"), and logs its samples in the format of Go benchmarks, for bench/results/live.txt.
package livecost
