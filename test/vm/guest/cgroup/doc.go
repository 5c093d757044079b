// Package cgroup is a guest test suite. It compares the in-memory tree of the unit
// tests with the real kernel. It also checks that processes run on the CPUs that
// pkg/cgroup writes.
package cgroup
