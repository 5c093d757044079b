// Package viewer shows a node in a browser: the picture of its CPUs, who has them, what
// they do, and why. It is part of kubectl-cpupool, not of the daemon: it is run by who
// wants to look, from what `cpupoold status -o json` prints, and it cannot change anything.
//
// # Way of the data
//
// A [Feed] holds the latest status, from a file or from a stream of them (feed.go). A
// [Server] answers with the page, the picture and the status, and tells the page when
// there is a newer one (server.go, page.html, page.js). Why somebody runs where he runs an
// [Explainer] says, when the page asks (explain.go, explain.js). Nothing is fetched from
// elsewhere.
package viewer
