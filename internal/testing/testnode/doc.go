// Package testnode is a node to test on where there is none: a cgroup v2 tree
// and a container runtime on a real socket, both moved along by the test.
//
// They are doubles of a kernel and of a runtime, and not of cpupoold's own
// packages: these run on them as they are. What they claim about the real
// things is held to the real things by the tests that run in a virtual machine.
package testnode
