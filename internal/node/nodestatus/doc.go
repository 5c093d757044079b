// Package nodestatus shows a node's pools to the cluster that it is in: the extended
// resources by which the scheduler counts pods, a condition, events of pods, and a
// startup taint that goes when the pools are in force.
//
// It is fed with what the daemon wants to be seen ([State]), and the daemon never
// waits for it: an API server that is slow, away or hostile costs what the cluster
// sees of the node, and nothing of what happens on it.
//
// The other way goes what namespaces allow ([Namespaces]), where that is asked for: it is
// told, kept in a file, and never waited for either.
//
// # How much is advertised
//
// The scheduler adds up what pods ask for, and knows nothing of pods that use a
// pool's CPUs without asking for its resource: those from before the webhook, those
// that it has let pass, those that have grown since. Their part is taken off:
//
//	used      by running pods: the CPU requests of the containers in the pool
//	counted   what running pods ask for of the resource
//	unaccounted = max(0, used - counted), of each pod, summed up
//	advertised  = max(pool, max(used, counted) summed up) - unaccounted
//
// So it is never less than what running pods ask for: a kubelet that restarts admits
// its pods again, and would end those that do not fit any more (OutOf...). All amounts
// are thousandths of a CPU.
//
// What a pod asks for comes from the kubelet's own record on this node (see
// [ReadRecord]). No pod can forge it, and no right to read the cluster's pods is
// needed. Where there is none (kubelet before 1.33), the webhook's annotations tell of
// management pods, and nothing is known of the others: they are taken to be counted.
package nodestatus
