// Package simulate runs the planner of the daemon over a machine, pods and a
// configuration that need not exist, and shows its plans.
//
// [Machine] reads a topology from a description, from XML of lstopo or from output of
// cpupoold. [Pods] converts pods of the API to the data that a runtime gets from a kubelet.
// [Node] adds, removes and changes pods by the events of [ParseTrace], and runs the
// planner after each event. All rules about pools are in pkg/pools, pkg/allocate and
// internal/config.
package simulate
