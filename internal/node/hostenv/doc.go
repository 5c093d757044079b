// Package hostenv connects the daemon with its environment: the container
// runtime, systemd, the kubelet, the CPUs that the kernel reports, the lock of
// the node, and the service manager's notifications. Host holds these
// connections; it has no state of pods. Each connection can be replaced by
// another implementation of its interface.
package hostenv
