// Package viewer shows nodes in a browser: problems, the picture of the CPUs, containers and
// their explanations. It is part of kubectl-cpupool, not of the daemon, and changes nothing.
//
// A [Feed] holds the latest status of a node (feed.go). [Nodes] are the feeds of all nodes:
// a [Set] reads them from documents (document.go, nodes.go), the program from a cluster. A
// [Server] answers with the page (page/), the picture and the state, and informs the page when
// there is a newer state (server.go). An [Explainer] returns explanations on request
// (explain.go). The page loads nothing from other servers.
package viewer
