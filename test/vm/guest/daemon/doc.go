// Package daemon holds the tests of cpupoold with real containers on a node. They run in the guest (build tag "guest") with systemd,
// containerd and a kubelet, and compare the kernel's values with the pools.
package daemon
