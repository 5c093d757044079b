// Package defrag says how fragmented the exclusive CPUs of a node are, and which
// moves of owners would mend it.
//
// Owners come and go, and each is placed as well as what is free at that moment
// allows. What was the best place then need not be it later: cores stay split
// although whole ones have become free, and an owner stays on two NUMA nodes
// although it would fit into one. Nothing moves an owner by itself, because a
// move costs it its caches and, across nodes, the distance to its memory. [Analyse]
// only proposes.
//
// A move is proposed when it makes something better for its owner and nothing
// worse for anybody:
//
//   - its owner is measured by CPUs off the nodes of its devices, split cores (or,
//     with distribute-cpus-across-cores, cores), NUMA nodes, packages, L3 groups,
//     and by what else its options wish for. One of these gets less, none gets more;
//   - it enters no core of which another owner has a part, unless it is there already;
//   - it goes to another NUMA node only to touch fewer nodes or to be nearer to its
//     devices;
//   - its options hold on the new CPUs as they would for a new owner.
//
// Each move goes to CPUs that are free, or the owner's own, after the moves before
// it: any beginning of the list can be carried out, and the rest be left.
//
// The search is greedy and bounded. The owner that is worst off is placed anew by
// the allocator, in each of a set of parts of the machine; the best result that
// keeps to the above is the move; then again. When nobody can be moved for the
// better, one owner may first make room for another, if it is no worse off where
// it goes. On machines of up to eight groups of CPUs that share cache, node and
// package all unions of groups are tried: then a single move that helps, if there
// is one, is found. On larger machines single groups, pairs, nodes, packages and
// what the owner has are. The bound stands for a few seconds on the largest machine;
// a report says when it was reached.
package defrag
