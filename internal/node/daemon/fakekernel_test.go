package daemon

import "github.com/cpupoold/cpupoold/pkg/cgroup"

// fakeKernel returns states of cgroups without files. It has no threads to move.
type fakeKernel func(p cgroup.Path) cgroup.State

func (k fakeKernel) Read(p cgroup.Path) (cgroup.State, error) { return k(p), nil }

func (fakeKernel) Check(before cgroup.State) (cgroup.State, error) { return before, nil }

func (fakeKernel) Gather(cgroup.Path) (cgroup.Gathered, error) { return cgroup.Gathered{}, nil }

func (fakeKernel) Rest() {}
