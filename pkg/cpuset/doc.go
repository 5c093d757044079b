// Package cpuset is an immutable set of CPU numbers on a bitset.
//
// A [Set] is a value. It is copied by assignment, and its zero value is the empty
// set. No method changes it, so sets can be shared between goroutines and
// kept in snapshots. Equal sets have equal representations, which makes
// [Set.Equal] agree with reflect.DeepEqual.
//
// Three text forms are read and written:
//
//   - the list that people write in configuration, "0-3,8" ([Parse]);
//   - the list that the kernel accepts in cpuset.cpus and on its command line,
//     with strides, "all" and "N" ([ParseKernel]);
//   - the hexadecimal mask of /proc/irq/N/smp_affinity and the like ([ParseMask],
//     [Set.Mask]).
//
// An empty set means no CPUs. It must not be written to cpuset.cpus, where an
// empty value means "inherit from the parent" (cgroup-v2.rst).
package cpuset
