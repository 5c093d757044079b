// Package hostenv connects the daemon with its environment: the container
// runtime, systemd, the kubelet, and the CPUs that the kernel reports.
//
// Host holds these connections and no state of pods. Each connection is an
// interface, so that tests replace it. Start.Wait retries until the runtime answers;
// every later call returns its error to the caller. Host.Observing returns a
// host that refuses every write.
package hostenv
