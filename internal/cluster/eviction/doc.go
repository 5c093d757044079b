// Package eviction decides which pods have to leave nodes whose shared pool is depleted,
// from which nodes, and whose turn it is.
//
// That a node is depleted is said by the node itself: whoever has a daemon's token can
// say it of its Node, and of no other. So what is believed is bounded. Only what the
// daemon shows of the Node is asked, and only as long as it is kept up to date; the
// times that count are the reader's own; and where many nodes are depleted at once,
// none is believed: something else is wrong then, and pods that were evicted would have
// nowhere to go.
//
// Nothing here talks to a cluster.
package eviction
