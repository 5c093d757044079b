package cgroup

import (
	"errors"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// RootCPUs describes the CPUs of the root of the tree, and the partitions below it.
type RootCPUs struct {
	// Effective is cpuset.cpus.effective of the root, with the CPUs of partitions that have ended
	// during the reading.
	Effective cpuset.Set
	// Nested reports whether the root is a cgroup of a larger tree, as in a cgroup namespace of
	// a container. Only such a root has the file cpuset.cpus.
	Nested bool
	// Partitions holds the CPUs of all valid partitions below the root. It is nil if the root
	// has all CPUs of the question.
	Partitions map[Path]cpuset.Set
}

// RootEffective returns cpuset.cpus.effective of the root.
func (f *FS) RootEffective() (cpuset.Set, error) { return readOne(f, "", fileEffective, parseCPUs) }

// RootCPUs reads the CPUs of the root. If the root lacks a CPU of online, RootCPUs also reads all
// cgroups that can be partitions.
func (f *FS) RootCPUs(online cpuset.Set) (root RootCPUs, err error) {
	if root.Effective, err = f.RootEffective(); err != nil || online.IsSubsetOf(root.Effective) {
		return root, err
	}
	switch _, err := f.ReadFile("", FileCPUs); {
	case err == nil:
		root.Nested = true
	case !errors.Is(err, ErrNoController):
		return root, err
	}
	root.Partitions = make(map[Path]cpuset.Set)
	err = f.eachPartition(func(p Path, n PartitionNode) {
		if n.State.Valid() {
			root.Partitions[p] = n.Effective
		}
	})
	if err != nil {
		return root, err
	}
	again, err := f.RootEffective()
	root.Effective = root.Effective.Union(again)
	return root, err
}
