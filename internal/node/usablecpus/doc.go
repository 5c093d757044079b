// Package usablecpus finds the CPUs that pools can use. These are the online CPUs that the cgroup
// root has, or that a partition of a container has.
//
// The root lacks a CPU for two reasons. In a container, the root is a cgroup with a limit. Or a
// process outside of the pods has made a cpuset partition with the CPU. The daemon treats such a
// CPU as offline. Partitions of containers do not count: their CPUs stay in the pools, because the
// daemon has made them, or reports them in another way.
//
// Kernel receives the kernel's notifications of CPUs that go offline or online. Rule is pure. A Reader
// holds its last reading, and several goroutines can use it.
package usablecpus
