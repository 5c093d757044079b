// Package daemon holds the tests of cpupoold with real containers on a node: they run in the guest (build tag "guest"), where systemd,
// containerd and a kubelet are at work, and hold the kernel's word against the pools.
package daemon
