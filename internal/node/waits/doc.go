// Package waits limits the time for which the runtime waits for replies about containers.
//
// The runtime sends one NRI request at a time. A reply that waits for CPUs or for the
// kubelet delays every other creation on the node. Budget grants each request the time
// that its reply may wait. All waits together use at most a twentieth of the time, and
// a burst of two seconds. A pod that has waited before leaves one second of the budget
// to other pods. The package is pure: callers pass the time.
package waits
