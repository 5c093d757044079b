// Package fleet runs the code that shows a node to its cluster (internal/node/nodestatus) three
// hundred times against a real API server. It counts their requests at the start, when idle,
// while the API server is away, and when pools change.
//
// Each node runs the code of the daemon, with the limits of production. No cgroups are needed,
// because the test invents the state to show. docs/explanation/scale.md has the results, and
// their meaning for larger clusters. `make test-fleet` runs it.
package fleet
