// Package cgroup knows the cgroup v2 tree of a Kubernetes node: where the
// cgroups of pods and containers are, what the kernel says about them, and how
// to get them from what they are to what they should be.
//
// It has two halves. The pure one (paths, parsers, [Diff], [Check], [Verify])
// depends on nothing but its arguments. The other one touches the machine: [FS]
// reads and writes files of the cgroup2 mount, [Systemd] reads, sets and watches
// units over D-Bus.
//
// # Writes and seals
//
// A write to cpuset.cpus takes effect at once, but it is not the last word. The
// container runtime keeps the container's cpuset in the OCI spec, systemd keeps
// AllowedCPUs of the unit, and both write what they keep again: at a resize, at
// a daemon-reload, whenever they set anything else. So each raw write is followed
// by a seal, which makes the recorder agree: UpdateContainerResources over CRI
// for containers, which changes spec, unit and file; AllowedCPUs over D-Bus for
// the cgroups that CRI cannot update, those of sandboxes, slices and the units that
// the configuration names. Without systemd these have no recorder, and the raw
// write is all.
//
// Weight and quota never go over CRI, where they would change what the scheduler
// counts, but over D-Bus, or to the file without systemd. They come after the
// seal, because a runtime that gets a CRI update writes all it has recorded,
// weight and quota included, and because systemd, with each property that it sets,
// applies all that it has: a unit with other CPUs recorded would go there.
//
// Memory nodes are written when the cgroup is on its CPUs and these are recorded,
// and only when they differ, for the kernel moves the memory: first the file, from
// a worker ([Write.Slow]), then the recorder, which finds nothing left to move.
// Neither runtimes nor kernels before 7.0 can clear them: all nodes undo it.
//
// # Units that are stopped
//
// What is set over D-Bus for a service that does not run, in runtime mode, goes
// into systemd's runtime directory: the service starts with it, and keeps it
// through daemon-reload, stops and starts until the machine boots (transient units
// lose it with their end). So a unit that the configuration names is a cgroup that
// does not exist yet, like that of a container that was created: it holds what is
// recorded for it, and its seal is its only write.
//
// A unit may have cgroups of its own below (Delegate=). They are bounded by its
// set whatever they ask for, and one that asks for nothing of it gets all of it: a
// unit owns its CPUs as a whole, and who shares them inside is its own matter.
//
// # Limits of the work that notices cause
//
// A container can write files of its own cgroup if the cgroup is delegated to it or if it is
// privileged. The kernel merges a notice only with an equal one at the end of the queue. So a
// container that writes two files in turn can fill the queue of all cgroups
// (fs.inotify.max_queued_events, 16384 by default). After an overflow all cgroups must be
// watched and read again.
//
// [Watcher] bounds that work with two limits:
//
//   - A cgroup with more than 1,000 notices in a second loses its watch for 30 s. In this time
//     the Watcher reports its files as written once a second. So a wrong value there lasts at
//     most a second longer. All other cgroups keep their watches.
//   - The Watcher reports the first overflow at once, and the next one after a pause. The
//     watches stand in the pause, so that notices still arrive. The pause doubles from one
//     second to the limit that the caller sets. It returns to one second after that limit
//     without an overflow.
//
// A cgroup whose children are reported keeps its watch, because pods and containers appear in
// it. A container can write there only with the host's cgroup namespace.
//
// One inotify instance for each cgroup would isolate the queues. But all services of root share
// 128 instances by default (fs.inotify.max_user_instances).
//
// # The order of writes, and why every prefix of it is safe
//
// A list of writes may end anywhere: the daemon is killed, a write fails, a
// container goes away. Let E(x) be the CPUs that the tasks of a cgroup x run on,
// T(x) its target, and
//
//	H(x) = E(x) ∪ request(x) ∪ recorded(x) ∪ unit(x) ∪ pending(x)
//
// what x holds: where it runs or may be sent without a write of ours, because
// CPUs come online, because its recorder or systemd acts, or because a seal in
// flight arrives. A pair of cgroups conflicts when one of them is exclusive. Diff keeps
// one rule: a write, or a seal, that takes x to a set V is emitted only if
//
//	(V \ E(x)) ∩ H(y) = ∅ for all y that conflict with x
//
// where E and H are those after all writes before it. One that is exclusive and shares
// some of its CPUs ([Target.Mixed]) conflicts on the others alone: on those that it
// shares it is as any other, and what it held before and neither has nor shares by the
// plan it leaves before others come. From this follows:
//
//   - No conflicting pair begins to share a CPU. After the write E(x) is within V
//     and H(x) has grown by nothing but V \ E(x), and nobody who conflicts holds
//     any of that. So H(x) ∩ H(y), and with it E(x) ∩ E(y), never grows. What
//     overlapped before the list may go on overlapping until its turn comes,
//     because undoing that is what the list is for.
//   - In particular no CPU that an exclusive cgroup has for itself comes into
//     anybody else's set.
//   - Nobody's set is ever empty. All written sets have CPUs that the cgroup can
//     get from its parent (ParentEffective): a target that has none is deferred,
//     because the kernel would send the tasks to all CPUs of the parent without
//     an error.
//   - It holds whatever the recorders do meanwhile, since H counts what they may
//     put back. A CPU is given away only after the seal of whoever left it.
//
// Who is no target any more and has not left its CPUs ([Options.Leaving]) is such a
// y, exclusive and with nothing but these CPUs: what it goes to in the end is not
// planned here, and everybody else's as much as its own.
//
// A container without any record adds nothing to H: when its raw write is lost
// before the first seal it runs on its parent's CPUs, as it did before we came.
// That is counted as exposure and repaired by the next pass; to wait for it would
// let one container whose seal fails hold up all others. A container that has no
// cgroup yet would start on what is recorded for it, so this is what it holds; the
// seal is then its only write.
//
// The order itself: first whoever only loses CPUs, which is always safe. Then
// those whose new CPUs have been left, as long as there are any; then all seals
// that are due; and again, because seals free CPUs. Within each step cgroups are
// in order of their paths, so that equal states give equal lists. If nothing goes,
// all who are left wait for each other, and Diff makes somebody give way, gently:
//
//  1. Who has, or can have, part of his target goes there ([Target.CPUs] without
//     what others hold).
//  2. Who has left CPUs but has them still recorded is sealed where he is.
//  3. Who must leave all his CPUs keeps but one of those that others wait for.
//  4. An exclusive container goes to a spare CPU of its pool.
//
// What has no cgroup yet takes these steps with its record.
//
// Two single CPUs that change hands with no CPU to spare cannot be moved without
// an overlap: they are deferred. So is whoever waits for a cgroup that cannot be
// written or sealed now. In that case, and while a seal is in flight, steps 3 and
// 4 are not taken, so that nobody suffers for a move that is not going to happen.
//
// A list that was carried out up to the end of a run of raw writes, or of a run
// of seals, is continued by the Diff of the state then: a daemon that leaves seals
// to workers and comes back makes the cpuset writes that `plan` printed.
//
// Slices of host services and of pods ([Target.Around]) contain other targets and are exempt
// from this in one direction: they wait for other cgroups. Other cgroups do not wait for them
// (around.go). In a pod's slice with CPUs, H of a container is limited to CPUs of the slice.
//
// The inner cgroup that crun makes below a scope is always within the scope's
// set, so it does not matter for the above; it is written before its scope when
// narrowing and after it otherwise, so that its tasks move once.
package cgroup
