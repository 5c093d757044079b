// Package fleet puts three hundred nodes' worth of the code that shows a node to its
// cluster (internal/node/nodestatus) before a real API server, and counts what they ask for: at
// their start, at rest, while the API server is away, and when pools change.
//
// What runs for each node is what runs in the daemon, with the limits of production.
// There are no cgroups; what there is to show is made up. docs/explanation/scale.md has the
// results, and what they make for larger clusters. `make test-fleet` runs it.
package fleet
