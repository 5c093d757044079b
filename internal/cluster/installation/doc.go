// Package installation checks from inside the cluster that an installation works: the
// DaemonSets of the daemon, the conditions of their nodes, and the webhook. helm test runs it.
package installation
