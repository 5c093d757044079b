// Package partition holds rules about cpuset partitions that the event loop and
// restore share: pauses, limits, and the cgroups that belong to the daemon.
//
// Where the kernel allows it, each exclusive container becomes a remote
// partition. Then the kernel keeps all other tasks off its CPUs, host processes
// included, also while no daemon runs. Package cgroup plans the writes
// (PlanPartitions). A pass ends partitions before its other writes and makes
// partitions after them, when an owner is alone on its CPUs. So a container that
// loses its partition is still pinned to its CPUs.
package partition
