// Package nodestatus shows the pools of a node to its cluster: extended resources for the
// scheduler, a condition and events of pods. A startup taint stays until the pools are in
// force.
//
// The event loop passes a [State] and never waits for this package. If the API server is
// slow or down, the cluster's view of the node is late; the CPUs on the node are not
// affected. [Namespaces] works in the other direction: it follows the permissions of
// namespaces, if configured, and keeps them in a file.
package nodestatus
