package runtimetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// checkBinding checks the record and the cgroup of a running container.
func (b *bench) checkBinding(id string, cpus, mems cpuset.Set) {
	b.Helper()
	c := b.recordedCPUs(id, cpus)
	if got, err := c.RecordedMems(); err != nil || !got.Equal(mems) {
		b.Errorf("recorded memory nodes %q, %v; want %q", got, err, mems)
	}
	s := b.cgroup(c.CgroupsPath)
	if !s.CPUs.Equal(cpus) || !s.Mems.Equal(mems) || !s.EffectiveMems.Equal(mems) {
		b.Errorf("CPUs %q, nodes %q, effective %q; want %q, %q", s.CPUs, s.Mems, s.EffectiveMems, cpus, mems)
	}
	if diff := cmp.Diff(containerSpec().Resources, without(c.Recorded)); diff != "" {
		b.Errorf("the update changed other records (-before +after):\n%s", diff)
	}
}

// updateMems checks that updates of CPUs and of memory nodes are independent.
func (b *bench) updateMems() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	b.must(b.Client.UpdateMems(b.Context(), id, cpuset.Of(1)))
	b.checkBinding(id, cpuset.Set{}, cpuset.Of(1))
	b.must(b.Client.UpdateCPUs(b.Context(), id, cpuset.Range(2, 3)))
	b.checkBinding(id, cpuset.Range(2, 3), cpuset.Of(1))
	b.must(b.Client.UpdateMems(b.Context(), id, cpuset.Of(0)))
	b.checkBinding(id, cpuset.Range(2, 3), cpuset.Of(0))
	err := b.Client.UpdateMems(b.Context(), id, cpuset.Of(900))
	if err == nil || errors.Is(err, cri.ErrNotFound) || errors.Is(err, cri.ErrNotRunning) {
		b.Errorf("update to a memory node that does not exist: %v", err)
	}
	b.checkBinding(id, cpuset.Range(2, 3), cpuset.Of(0))
	b.must(b.Client.UpdateMems(b.Context(), id, cpuset.Of(0, 1))) // all nodes: the equivalent of no request
	b.checkBinding(id, cpuset.Range(2, 3), cpuset.Of(0, 1))
}

// memsCreated checks that values recorded before the start apply from the start on.
func (b *bench) memsCreated() {
	id := b.container(b.pod())
	b.must(b.Client.UpdateMems(b.Context(), id, cpuset.Of(1)))
	b.must(b.Client.UpdateCPUs(b.Context(), id, cpuset.Of(2)))
	b.must(b.Runtime.StartContainer(id))
	b.checkBinding(id, cpuset.Of(2), cpuset.Of(1))
}
