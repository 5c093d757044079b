// Package pools decides which CPUs each container of a node runs on.
//
// It is a function from data to data. [Spec.Resolve] holds what an operator
// configured against a machine, and [Spec.Adapt] makes the best of it on another
// one; [Build] takes the pools, the machine, the pods and the assignments that are
// in force, and returns the [Plan]: for each container and systemd unit a set of
// CPUs with the reason for it, for each pod what its slice needs, and the
// problems. There is no clock, no file and no state in here: the caller keeps the
// plan's assignments and gives them back the next time. So equal inputs give equal
// plans, and a daemon that has just started and found its assignments in the
// runtime plans what the one before it would have planned.
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
// A Guaranteed pod with pod-level resources has its total in exclusive CPUs, as one
// owner. Containers with whole CPUs take their part, and the others share the rest:
// see [PodLevel].
//
// All others are shared: BestEffort, Burstable, fractions of CPUs, pods that do not
// come from the kubelet, pause containers.
//
// # Assignments
//
// CPUs are assigned to a name, pod UID and container, not to a container ID, and
// are held until the pod is gone: a container that restarts finds the CPUs that
// it had, and nobody has had them in between. A systemd unit of the configuration
// is an owner like a container, for as long as the configuration names it, also
// while it is stopped. These passes settle who has what:
//
//  1. All keep what they have, as far as it is still in the guaranteed pool. Where
//     records contradict each other a container goes before a unit, and the older
//     container before the younger.
//  2. Who has more than it asks for gives back the rest, and keeps what is best
//     packed.
//  3. Where nothing is left to the shared pool, the last one gives it a CPU.
//  4. Containers of pods for which CPUs are reserved take them, with what they need
//     beside them; see below.
//  5. Who has less gets more, units first and then the oldest container: one that
//     has nothing all or nothing, one that has lost a part (the pool has shrunk, a
//     CPU is offline, the container was resized) as much as there is. This is
//     repeated until nobody gets anything, so that a refusal is true in the end.
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
// are taken only when there are no others. One that is younger than the new one,
// or has run beside it, was no init container, and keeps its CPUs. Of one that was
// removed from the runtime (the kubelet keeps the last that has ended) nobody knows
// when it ran, with or without a restart of the caller, and it counts as older.
// Should the wrong container be hit, it gets other CPUs when it starts again.
//
// # From shared
//
// The guaranteed pool is a fixed list of CPUs, or with from: shared a part of the
// shared pool, out of which owners carve theirs. Then the shared containers, and
// those of a partition that takes all CPUs, have what owners leave: [Plan.Shared].
// Nobody gets CPUs that would leave it less than the floor. Which CPUs stay is what
// packing the owners leaves. When the floor is raised, or CPUs go offline, it has
// less than the floor, with a Problem, until owners end: they keep what they have.
// It is never empty: when owners have all that is left of it, one CPU is taken, from
// reserves and exited containers before all others, then from the youngest.
//
// # Offline CPUs
//
// Pools have online CPUs only, and grow and shrink with them. An owner whose CPUs go
// offline gets others where there are some, as in pass 5: one that has lost all of
// them all or nothing, so that it may have to run in the shared pool for a while.
// What it has got no others for is away: it is remembered with the assignment, nobody
// else gets it, and when it is online again the owner has it before anybody is served.
// A container that has exited, and one of an unread pod, get no others and keep what
// is away. What becomes of a pool that has lost its last CPU says [Spec.Adapt].
//
// # Pods as a whole
//
// A Guaranteed pod's total is known before its containers. What of it they do not
// ask for, in whole CPUs, is reserved for those that are to come, under the key of
// the pod. Fractions count when the pod is settled, or nothing would be left of the
// total: they may be an init container's. A settled pod gets no more, but keeps what
// is reserved, because an init container may run for long, and the scheduler gives
// a pod's total to nobody else.
//
// Containers that come take from the reserve first, and only then from what is free,
// so that a pod that has begun can go on. A container with hints that point elsewhere
// changes what is reserved for other CPUs. The reserve and all containers that have
// nothing yet are placed at once, which keeps them together; where that cannot be
// had, the containers are tried one by one. Where there are enough CPUs, but not as
// the options want them for the whole pod, as many are reserved as can be used;
// what is missing is a Problem.
//
// # Options and hints
//
// How CPUs are chosen is for pkg/allocate, by the options of the configuration and
// what a pod overrides by annotation, cpupoold.io/ and the name of the option, as
// far as the configuration lets it. Hints are the NUMA nodes of a container's
// devices and memory. A container whose hints are not known yet waits; it does not
// lose what it has.
//
// Where an owner has its cores to itself, their other threads are idle: in no pool,
// [Plan.Idle]. Only the owner can grow into them. The reserve of a pod has a core for
// each CPU where there are as many, because each may become an owner's. Nobody loses
// CPUs because others should be idle or apart: where the shared pool has less than
// its floor otherwise, it has idle CPUs too, and owners that have parts of one core
// stay there, both with a Problem.
//
// With BindMemory the plan names the NUMA nodes for an owner's memory: those of
// its CPUs, or for a node without memory the nearest that has some.
//
// # Quota
//
// An owner's CPUs bound it, so its quota is lifted, and with it that of its pod's
// slice, unless the pod keeps it by CRI-O's annotation cpu-quota.crio.io. For all
// others in Guaranteed pods the plan says what quota they had, so that it can be
// put back when an owner loses its CPUs.
package pools
