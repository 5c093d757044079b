// Package testnode is a fake node for tests: a cgroup v2 tree in memory, and a container runtime
// on a real socket. The test controls both.
//
// The fakes replace the kernel and the runtime; cpupoold's own packages run on them unchanged.
// The conformance suites check the same behavior on real kernels and runtimes, in virtual
// machines.
package testnode
