package requests

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Keep returns the values that an update of a container by another process must not change. p is
// the container's placement, or nil. kubeletPlaces is true if the kubelet's CPU manager is
// static.
func (q *Queue) Keep(e *inventory.Container, p *pools.Placement, asked cri.Resources, kubeletPlaces bool) cri.Resources {
	var keep cri.Resources
	if p != nil && p.Pool == pools.Other {
		return keep
	}
	current := q.cache.Current(e.Path)
	cpus := settledCPUs(current)
	if kubeletPlaces && p != nil {
		cpus = p.Runs() // the kubelet has already moved the other containers
	}
	if cpus.IsEmpty() && p != nil && current.Exists && current.CPUs.Equal(p.Runs()) {
		cpus = current.CPUs // the record is unknown, and can contain CPUs of another container
	}
	if asked.CPUs != "" && !cpus.IsEmpty() && cpus.String() != asked.CPUs {
		keep.CPUs = cpus.String()
		q.cache.Writes.NoteOverride(e.Path)
	}
	if p == nil {
		return keep
	}
	// With an update without CPUs the runtime writes its recorded CPUs. While an update of
	// the record is in progress, those can belong to another container.
	recorded := current.RecordedKnown && cpus.Equal(current.Recorded)
	if asked.CPUs == "" && !cpus.IsEmpty() && cpus.Equal(p.Runs()) && !recorded {
		keep.CPUs = cpus.String()
	}
	if asked.Shares != 0 && p.Shares != 0 {
		keep.Shares = p.Shares
	}
	switch {
	case asked.Quota > 0 && p.Unlimited:
		keep.Quota = -1
	case asked.Quota != 0 && p.Limit != 0:
		keep.Quota, keep.Period = cgroup.LimitQuota(p.Limit)
	}
	if !p.Mems.IsEmpty() && asked.Mems != "" && !q.cache.Writes.IsBusy(e.Path) {
		keep.Mems = p.Mems.String()
	}
	return keep
}

// settledCPUs returns the CPUs that the runtime may record for a cgroup. They are the CPUs of
// the write in progress or of the last record. If the cgroup has only a part of them now, the
// part is returned. The empty set means unknown.
func settledCPUs(c cgroup.Current) cpuset.Set {
	cpus := c.Pending
	if cpus.IsEmpty() && c.RecordedKnown {
		cpus = c.Recorded
	}
	if c.Exists && !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(cpus) {
		return c.CPUs
	}
	return cpus
}
