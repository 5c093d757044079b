// Package podresources returns the kubelet's decisions about the containers of
// this node.
//
// The PodResources API (k8s.io/kubelet, podresources.v1; KEP-606, KEP-2043) lists the NUMA
// nodes of devices, under every policy of the kubelet's managers. It lists the nodes of memory
// and hugepages with the memory manager's policy Static, and the exclusive CPUs of
// containers with the CPU manager's policy static. The file cpu_manager_state contains them too, with the CPUs of all other
// containers. No protobuf type leaves the package.
//
// The client adds no deadline to a call: the context bounds the wait for a hung
// kubelet. A lost connection is restored automatically. Until then, calls
// fail at once.
package podresources
