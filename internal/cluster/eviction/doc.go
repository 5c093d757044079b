// Package eviction decides which pods must leave nodes whose shared pool is depleted, and
// in which order. It has no connection to a cluster.
//
// Each node reports its own depletion: a daemon's token can change its own Node only. The
// package limits its trust in these reports:
//
//   - It reads only values that the daemon writes, and only while the daemon updates them.
//   - It compares times with the clock of the reader.
//   - If many nodes are depleted at once, it evicts no pods: the cause is a different one,
//     and evicted pods would find no node.
package eviction
