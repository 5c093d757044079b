// Package placement holds cpupoold's choice of CPUs against what its options promise, on the kernel's word about real containers. It runs
// in the guest (build tag "guest") beside a real kubelet and a real device plugin, on machines of several shapes: what a choice must look
// like is derived from the topology of the machine that it runs on, not from cpupoold's allocator.
package placement
