// Package numahints holds the NUMA nodes that the kubelet allocated for devices
// and memory of containers that request exclusive CPUs. Hints decides when to
// ask the kubelet and how long a container waits for the answer. Fetch asks; it
// runs in a worker.
package numahints
