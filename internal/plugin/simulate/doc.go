// Package simulate runs the planner of the daemon over a machine, pods and a
// configuration that need not exist, and shows its plans.
//
// [Machine] makes a topology of a description, of lstopo's XML or of what cpupoold has
// printed; [Pods] makes pods of the API what a kubelet tells a runtime of them;
// [Node] has them come, go and change, as [ParseTrace] says, and asks the planner each
// time. There is no rule about pools in here: pkg/pools, pkg/allocate and
// internal/config decide.
package simulate
