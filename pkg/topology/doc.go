// Package topology reads the CPUs of a machine from sysfs, and their common
// cores, last-level caches, dies, packages and NUMA nodes.
//
// [Read] takes the tree that is mounted on /sys as an fs.FS, so that it works on
// os.Root.FS() and on a text archive of another machine alike. Files of all kernels
// are required: an online CPU without its topology files is an error that
// names the file, because a guess could give one core to two owners. Files
// of only some kernels and machines are optional, and each field documents its
// default.
//
// The files are described in Documentation/admin-guide/cputopology.rst and
// Documentation/ABI/*/sysfs-devices-system-cpu and -node of the kernel.
package topology
