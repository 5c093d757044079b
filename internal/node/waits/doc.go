// Package waits limits the time for which the runtime waits for replies about containers.
//
// The runtime sends one NRI request at a time. A reply that waits for CPUs or for the
// kubelet delays every other creation on the node. Budget grants each request the time
// that its reply may wait. Two kinds of waits need no share of the budget:
//
//   - A decided wait of less than 100 ms costs nothing.
//   - A pod that has not waited for 100 ms in the last hour may wait for 100 ms, even if the
//     budget is used up. If it waits that long, the budget pays later.
//
// Without them, pods that retry would take the kubelet's answer from all other pods. Each
// of these waits belongs to a creation, and a creation takes the runtime longer than 100 ms
// on a real node. So they at most double the time of the creations. An author who creates
// a new pod for each wait therefore also needs the time of its creation.
//
// All other waits together use at most a twentieth of the time, and a burst of 2.5 s. A pod
// that has waited for 100 ms or more leaves one second of the budget to other pods. The
// package is pure: callers pass the time.
package waits
