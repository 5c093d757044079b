// Package managers knows the other managers of CPUs that a node may have: what their
// configuration says that they do, and which containers are therefore theirs.
//
// CRI-O is one where it has workloads ([crio.runtime.workloads], crio.conf(5)), or a
// runtime handler whose allowed_annotations let pods switch load balancing off or ask
// for shared CPUs (its high-performance hooks): it then writes the cpuset of those
// containers itself. tuned is another, of what is around containers: interrupts,
// workqueues, the affinity of threads, frequency. Everything here is read from files;
// nothing is written.
package managers
