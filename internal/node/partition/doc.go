// Package partition makes, repairs and ends cpuset partitions. Partitions owns what the
// last scan has found, the pauses after refused writes, and the parking.
//
// Where the kernel allows it, each exclusive container becomes a remote partition. Then
// the kernel keeps all other tasks off its CPUs, host processes included, also while no
// daemon runs. Package cgroup plans the writes (PlanPartitions). A pass calls Dissolve
// before its other writes, and Make after them, when an owner is alone on its CPUs. So a
// container that loses its partition is still pinned to its CPUs. Only the goroutine of
// the event loop uses Partitions.
package partition
