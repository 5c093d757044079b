package runtimetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// update checks that only the cpuset changes, in the record and in the cgroup.
func (b *bench) update() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	before := b.recordedCPUs(id, cpuset.Set{})
	cgroupBefore := b.cgroup(before.CgroupsPath)
	if !cgroupBefore.CPUs.IsEmpty() {
		b.Errorf("cpuset.cpus of a container that asked for none: %q", cgroupBefore.CPUs)
	}
	for _, want := range []cpuset.Set{cpuset.Of(1), cpuset.Range(2, 3), cpuset.Of(0, 3)} {
		b.must(b.Client.UpdateCPUs(b.Context(), id, want))
		after := b.recordedCPUs(id, want)
		state := b.cgroup(after.CgroupsPath)
		if !state.CPUs.Equal(want) || !state.Effective.Equal(want) {
			b.Errorf("cpuset.cpus %q, effective %q; want %q", state.CPUs, state.Effective, want)
		}
		if state.Weight != cgroupBefore.Weight || state.Quota != cgroupBefore.Quota || state.Period != cgroupBefore.Period {
			b.Errorf("the update of the cpuset changed weight and quota: %d, %d/%d; before it %d, %d/%d",
				state.Weight, state.Quota, state.Period, cgroupBefore.Weight, cgroupBefore.Quota, cgroupBefore.Period)
		}
		if diff := cmp.Diff(containerSpec().Resources, without(after.Recorded)); diff != "" {
			b.Errorf("the update of the cpuset changed other records (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(containerSpec().Resources, without(after.Requested)); diff != "" {
			b.Errorf("the update of the cpuset changed the status (-before +after):\n%s", diff)
		}
	}
}

func without(r cri.Resources) cri.Resources {
	r.CPUs, r.Mems = "", ""
	return r
}

// refusal checks that an impossible update fails with a known error, and changes neither record
// nor cgroup.
func (b *bench) refusal() {
	id := b.container(b.pod())
	b.must(b.Runtime.StartContainer(id))
	good := cpuset.Range(1, 2)
	b.must(b.Client.UpdateCPUs(b.Context(), id, good))

	err := b.Client.UpdateCPUs(b.Context(), id, cpuset.Of(4000))
	if err == nil || errors.Is(err, cri.ErrNotFound) || errors.Is(err, cri.ErrNotRunning) {
		b.Errorf("update to CPUs that do not exist: %v", err)
	}
	c := b.recordedCPUs(id, good)
	if state := b.cgroup(c.CgroupsPath); !state.CPUs.Equal(good) {
		b.Errorf("cpuset.cpus after a refused update: %q; want %q", state.CPUs, good)
	}

	b.must(b.Runtime.StopContainer(id))
	err = b.Client.UpdateCPUs(b.Context(), id, cpuset.Of(3))
	if b.UpdatesExited && err != nil || !b.UpdatesExited && !errors.Is(err, cri.ErrNotRunning) {
		b.Errorf("update of an exited container: %v", err)
	}
	b.must(b.Runtime.RemoveContainer(id))
	if err := b.Client.UpdateCPUs(b.Context(), id, good); !errors.Is(err, cri.ErrNotFound) {
		b.Errorf("update of a removed container: %v; want ErrNotFound", err)
	}
}

// updateCreated checks that CPUs recorded before the start apply from the start on.
func (b *bench) updateCreated() {
	id := b.container(b.pod())
	want := cpuset.Of(2)
	b.must(b.Client.UpdateCPUs(b.Context(), id, want))
	b.recordedCPUs(id, want)
	b.must(b.Runtime.StartContainer(id))
	c := b.recordedCPUs(id, want)
	if state := b.cgroup(c.CgroupsPath); !state.Effective.Equal(want) {
		b.Errorf("effective CPUs after the start: %q; want %q", state.Effective, want)
	}
}
