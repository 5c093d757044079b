// Package control lets an operator on the node send requests to the running daemon. The
// protocol is HTTP over a Unix socket that only root can open; [Server] describes it.
//
// Client and server are one program, cpupoold, in perhaps two versions. A new version
// may add fields. Existing fields keep their meaning under /v1.
package control
