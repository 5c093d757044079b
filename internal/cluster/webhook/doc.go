// Package webhook serves what package review answers to API servers, and keeps what
// that takes: a certificate, caches, metrics, an orderly end.
//
// What a decision needs besides the pod comes from caches, the annotations of
// namespaces and the resources of nodes, and one ConfigMap with the latches of
// switches. Replicas share nothing else: each of them answers alone.
package webhook
