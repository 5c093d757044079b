// Package podresources tells what the kubelet has decided about the containers of
// this node.
//
// Over its PodResources API (k8s.io/kubelet, podresources.v1; KEP-606, KEP-2043) it
// says which NUMA nodes it has chosen devices and memory from, under every policy
// of its managers for devices; for memory and hugepages only with the memory
// manager's policy Static. With the CPU manager's policy static it says which CPUs
// containers have to themselves; the same, with the CPUs of all others, is in its
// file cpu_manager_state. No protobuf type leaves the package.
//
// The client adds no deadline to a call: the context decides how long a hung
// kubelet is waited for. A lost connection comes back by itself, and a call made
// meanwhile fails at once.
package podresources
