// Package hostenv connects the daemon with its environment: the container
// runtime, systemd, the kubelet, the CPUs that the kernel reports, the lock of
// the node, and the service manager's notifications.
//
// Host holds these connections and no state of pods. Each connection is an
// interface, so that tests replace it. Wait retries until the runtime answers;
// every later call returns its error to the caller. Host.Observing returns a
// host that refuses every write.
package hostenv
