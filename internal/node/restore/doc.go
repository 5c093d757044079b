// Package restore puts the original values of the journal back, while no daemon
// runs: cgroups, units, partitions, host settings and the node object.
// DryRestore returns the same report without a write.
package restore
