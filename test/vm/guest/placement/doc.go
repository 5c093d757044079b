// Package placement compares cpupoold's choice of CPUs with the documented effect of its options, for real containers in the kernel. It
// runs in the guest (build tag "guest") with a real kubelet and a real device plugin, on machines of several shapes. The expected choice
// comes from the topology of the machine, not from cpupoold's allocator.
package placement
