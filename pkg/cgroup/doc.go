// Package cgroup handles the cgroup v2 tree of a Kubernetes node: the places of pods and
// containers, their values, and the writes that change them.
//
// One half is pure (paths, parsers, [Diff], [PlanPartitions], [Verify]). The other half uses the machine: [FS]
// reads and writes files of the cgroup2 mount, and [Watcher] reports changes.
//
// The document docs/explanation/write-order.md explains the order of the writes of [Diff], why each
// prefix of them is safe, and the limits of [Watcher].
package cgroup
