package treewatch

import "github.com/cpupoold/cpupoold/pkg/cgroup"

// Set is set for tests.
type Set = set

// Update is update for tests.
func (s *set) Update(targets []cgroup.Target, pods []cgroup.Path) { s.update(targets, pods) }

// Files returns the cgroups with watched files.
func (s *set) Files() []cgroup.Path { return s.files }

// Parents returns the cgroups with watched children.
func (s *set) Parents() []cgroup.Path { return s.parents }
