// Package defrag measures how fragmented the exclusive CPUs of a node are, and proposes moves of
// owners. A move costs its owner the caches, and across nodes the distance to its memory. So [Analyse]
// only proposes, and no owner is moved without a request.
//
// The document docs/how-to/defragment.md states which moves are proposed. The search is greedy and
// bounded. The allocator places the owner that is worst off again, in each of a set of parts of the
// machine, and the best result is the move. If no owner can be moved for the better, one owner can
// first make room for another. On machines of up to eight groups of CPUs that share cache, node and
// package, the parts are all unions of groups. On larger machines they are single groups, pairs,
// nodes, packages and the parts where the owner is. A report states when the bound was reached.
package defrag
