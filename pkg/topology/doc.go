// Package topology reads from sysfs which CPUs a machine has and what they share:
// cores, last-level caches, dies, packages and NUMA nodes.
//
// [Read] takes the tree that is mounted on /sys as an fs.FS, so that it works on
// os.Root.FS() and on a text archive of another machine alike. What every kernel
// shows is required: an online CPU without its topology files is an error that
// names the file, because to guess would be to hand one core to two owners. What
// only some kernels and machines show is optional, and each field says what
// stands in for it.
//
// The files are described in Documentation/admin-guide/cputopology.rst and
// Documentation/ABI/*/sysfs-devices-system-cpu and -node of the kernel.
package topology
