// Package managers reads the configuration of other CPU managers on the node, and decides which
// containers they place. It reads files, and writes nothing.
//
// CRI-O writes the cpuset of a container in two cases (crio.conf(5)). The container belongs to a
// workload of crio.runtime.workloads, or its runtime handler allows annotations for load
// balancing or shared CPUs (high-performance hooks). tuned places no containers. Its profiles set
// interrupts, workqueues, the affinity of threads and CPU frequencies.
package managers
