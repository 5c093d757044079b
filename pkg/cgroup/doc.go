// Package cgroup reads and writes the cgroup v2 tree of a Kubernetes node.
package cgroup
