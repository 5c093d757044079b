// Package claims allocates devices to the ResourceClaims of pods, as the scheduler does.
//
// [Objects] holds the objects of resource.k8s.io/v1 of files. A [Scheduler] allocates on one node,
// with the allocator of Kubernetes and the features that Kubernetes 1.37 has on. It keeps the
// allocations of pods that are on the node, and states why it cannot allocate.
package claims
