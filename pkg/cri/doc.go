// Package cri is a client of the container runtime on this node, over the
// Kubernetes Container Runtime Interface (CRI, k8s.io/cri-api, runtime.v1).
//
// It reads and writes only the values that cpupoold needs: pods and containers,
// their cgroups and recorded CPUs, updates of these CPUs, and events. It works with
// containerd and CRI-O, and hides their differences. No
// protobuf type leaves the package.
//
// The client adds no deadline to a call: the context bounds the wait for a hung
// runtime. A lost connection is restored automatically. Until then, calls
// fail at once.
package cri
