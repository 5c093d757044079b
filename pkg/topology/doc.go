// Package topology reads from sysfs which CPUs a machine has and what they share:
// cores, last-level caches, dies, packages and NUMA nodes.
package topology
