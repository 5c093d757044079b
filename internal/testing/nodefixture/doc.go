// Package nodefixture is a fake node for tests of cpupoold: cgroups, systemd units, a
// container runtime, a kubelet, CPUs and a configuration.
//
// A Node is its whole state. Tests start pods, read back what the kernel shows, and wait
// with Eventually, which fails after Timeout. The package starts no daemon: tests of the
// event loop run one on the Host that a Node returns.
package nodefixture
