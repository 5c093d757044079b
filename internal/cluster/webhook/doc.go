// Package webhook serves the replies of package review to API servers. It has the certificate,
// the caches, the metrics and the shutdown of the server.
//
// Caches of namespaces, nodes and one ConfigMap hold the input of a decision in addition to
// the pod: annotations of namespaces, resources of nodes, and latches of switches. Replicas
// share only the ConfigMap. Each of them answers alone.
package webhook
