// Package hostkubelet finds the kubelet of this node and reads its configuration files.
//
// A container can run another kubelet: a node of kind, a virtual cluster, a test. Such a kubelet has
// its own PID namespace, or runs in the cgroup of a pod, and does not count. The host's kubelet
// can run in a container as well, without a PID namespace (Talos). So its files are read as the
// process sees them. The package holds no state.
package hostkubelet
