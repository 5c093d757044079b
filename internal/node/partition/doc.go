// Package partition holds the rules for cpuset partitions of the kernel that need
// no state: limits of a pass, pauses after a failure, and which cgroups are the
// daemon's own parking partition.
package partition
