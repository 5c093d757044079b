// Package pools decides which CPUs each container of a node runs on.
//
// It is a function from data to data. [Spec.Resolve] holds what an operator
// configured against a machine; [Build] takes the pools, the machine, the pods
// and the assignments that are in force, and returns the [Plan]: for each
// container a set of CPUs with the reason for it, for each pod what its slice
// needs, and the problems. There is no clock, no file and no state in here: the
// caller keeps the plan's assignments and gives them back the next time. So equal
// inputs give equal plans, and a daemon that has just started and found its
// assignments in the runtime plans what the one before it would have planned.
//
// # Classes
//
// A pod that asks for a workload type is managed, when the type has a partition,
// the pod's namespace is listed there (anybody can write an annotation), and the
// pod is not Guaranteed (its CPU would still be counted by the scheduler, and it
// has a claim to better than a pool). All its containers, pause too, run on the
// partition's CPUs. In any other case the request is a [Problem], and the pod is
// placed as if it had not asked.
//
// A container that asks for a whole number of CPUs in a Guaranteed pod gets CPUs
// of its own. The number is told by its shares, which the kubelet derives from
// the request: a quota may be switched off on the node, and we remove it
// ourselves from containers that own their CPUs. Shares end at 256 CPUs. Above,
// the quota counts where there is one, else what the container has, and 256 at
// least. A container of which nothing is known keeps what it has.
//
// All others are shared: BestEffort, Burstable, fractions of CPUs, containers
// without a request in a pod with pod-level resources, pods that do not come
// from the kubelet, pause containers.
//
// # Assignments
//
// CPUs are assigned to a name, pod UID and container, not to a container ID, and
// are held until the pod is gone: a container that restarts finds the CPUs that
// it had, and nobody has had them in between. Three passes settle who has what:
//
//  1. All keep what they have, as far as it is still in the guaranteed pool. Where
//     records contradict each other the older container wins.
//  2. Who has more than it asks for gives back the rest, and keeps what is best
//     packed.
//  3. Who has less gets more, the oldest container first: one that has nothing
//     all or nothing, one that has lost a part (the pool has shrunk, a CPU is
//     offline, the container was resized) as much as there is.
//
// Nobody who has CPUs loses them in favour of somebody else, so a container that
// comes too late runs in the shared pool, with a Problem, until there is room.
//
// One exception lets go of held CPUs. An init container that has ended needs its
// CPUs no more, but the CRI does not tell an init container from one that will
// restart. The pod's total does: it is the most that the pod needs at one time
// (KEP-753), so when a new container would take the pod above it, something that
// has exited was an init container, and the new one takes over as many of its
// CPUs as it would be above. Without a known total the CPUs of exited containers
// are taken only when there are no others. Should the wrong container be hit, it
// gets other CPUs when it starts again.
//
// # Allocation
//
// Of all ways to take n CPUs from what is free, the best has, in this order
//
//   - the fewest cores of which it takes only a part: threads of one core disturb
//     each other more than anything else does, so a container shares a core with
//     another one for an odd thread, or when there are no whole cores left;
//   - the fewest NUMA nodes, then packages, then the shortest distance between
//     the nodes;
//   - the fewest whole cores broken up: an odd thread comes from a core that is
//     split already, which keeps cores whole for those who come later;
//   - the fewest CPUs left in the nodes that it touches: the fullest that fit are
//     filled up, and large requests find empty nodes;
//   - the fewest last-level caches, in the same manner;
//   - the lowest numbers.
//
// A container that grows first completes the cores that it has in part, and its
// nodes count as touched. On machines with up to 14 nodes all sets of nodes are
// tried, the small ones first; beyond, when there are too many sets, the emptiest
// nodes are taken until there is enough.
package pools
