// Package cgroup is a guest test suite: it holds the tree in memory that unit
// tests run on and the real kernel to one behaviour, and shows that processes
// really go where the writes of pkg/cgroup send them.
package cgroup
