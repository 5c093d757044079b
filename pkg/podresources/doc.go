// Package podresources asks the kubelet which NUMA nodes it has chosen devices
// and memory from, for each container on this node, over its PodResources API
// (k8s.io/kubelet, podresources.v1; KEP-606, KEP-2043).
//
// The kubelet answers for devices under every policy of its managers; for memory
// and hugepages only with the memory manager's policy Static. No protobuf type
// leaves the package.
//
// The client adds no deadline to a call: the context decides how long a hung
// kubelet is waited for. A lost connection comes back by itself, and a call made
// meanwhile fails at once.
package podresources
