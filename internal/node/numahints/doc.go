// Package numahints holds the NUMA nodes of devices and memory that the kubelet
// allocated to containers which request exclusive CPUs. Hints owns the known
// nodes, the open questions and the containers that continue without an answer.
// It decides when to ask the kubelet and how long a container waits. Fetch asks;
// it runs in a worker.
package numahints
