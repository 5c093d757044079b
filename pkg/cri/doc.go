// Package cri is a client of the container runtime on this node, over the
// Kubernetes Container Runtime Interface (CRI, k8s.io/cri-api, runtime.v1).
//
// It knows what cpupoold needs and nothing else: which pods and containers
// there are, in which cgroups they run, which CPUs the runtime has recorded
// for them, how to record others, and when to look again. It speaks to
// containerd and CRI-O; where the two differ, the difference ends here. No
// protobuf type leaves the package.
//
// The client adds no deadline to a call: the context decides how long a hung
// runtime is waited for. A lost connection comes back by itself, and a call
// made meanwhile fails at once.
package cri
