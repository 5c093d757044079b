// Package restore restores the values that a node had before its daemon, while no daemon
// runs: cgroups, units, partitions, host settings and the Node object.
//
// Restore takes the originals from the journal. If the journal is lost, package preview
// presumes them. DryRestore returns the same report without a write. An original
// that cannot be written stays in the journal, so that a second call can complete the first.
package restore
