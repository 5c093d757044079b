// Package webhook serves what package admission decides to API servers: the rewriting
// of pods that are created, and the check of pods that are resized.
//
// What a decision needs besides the pod comes from caches, the annotations of
// namespaces and the resources of nodes, and one ConfigMap with the latches of
// switches. Replicas share nothing else: each of them answers alone.
//
// A pod that must not be is refused in a review. What is nobody's fault, a cluster
// that cannot be asked for instance, is an HTTP error instead: only then does the API
// server do what the webhook's failurePolicy says.
package webhook
