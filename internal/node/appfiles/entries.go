package appfiles

import (
	"iter"

	"github.com/cpupoold/cpupoold/internal/node/appcpus"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Entry returns the content of a container's file. shared holds the CPUs of the shared pool.
func (f *Files) Entry(pod *pools.PodPlan, c *pools.Placement, shared cpuset.Set) appcpus.Entry {
	var housekeeping cpuset.Set
	if c.Exclusive {
		housekeeping = f.Settings.HousekeepingOf(f.Objects.PodByUID(pod.UID).Annotations(), c.Name, c.CPUs)
	}
	return appcpus.Entry{
		PodUID: pod.UID, Pod: pod.Namespace + "/" + pod.Name, Container: c.Name, Pool: string(c.Pool), Type: c.Type,
		CPUs: c.CPUs, Exclusive: c.Exclusive, Nodes: f.Settings.Nodes(c.CPUs), SharedCPUs: shared, MixedCPUs: c.Mixed,
		CanLoseMixed: f.CRIO && f.Settings.Pools.Mixed.Shared && f.Settings.Pools.FromShared, // a property of CRI-O
		Housekeeping: housekeeping,
	}
}

// entriesOf returns the containers of all pods, including exited ones, and the units.
func (f *Files) entriesOf(plan *pools.Plan, targets []cgroup.Target) iter.Seq[appcpus.Entry] {
	verified := f.verified(targets)
	return func(yield func(appcpus.Entry) bool) {
		for pod, c := range plan.Containers() {
			if c.Kind != pools.App || c.Pool == pools.Other {
				continue // another manager places it
			}
			e := f.Entry(pod, c, plan.Shared)
			e.Verified = c.State != pools.Exited && pod.Name != "" && verified[c.ID]
			if !yield(e) {
				return
			}
		}
		for _, u := range plan.Units {
			e := appcpus.Entry{
				Unit: u.Name, Pool: string(u.Pool), Type: u.Type,
				CPUs: u.CPUs, Exclusive: u.Exclusive, Nodes: f.Settings.Nodes(u.CPUs), SharedCPUs: plan.Shared,
				Verified: verified[f.Objects.Units().NameOf(u.Name)],
			}
			if !yield(e) {
				return
			}
		}
	}
}

// verified returns the containers and units that the kernel shows on their CPUs, and the units
// that will start with them.
func (f *Files) verified(targets []cgroup.Target) map[string]bool {
	verified := make(map[string]bool, len(targets))
	for i := range targets {
		t := &targets[i]
		if t.Container+t.Unit == "" {
			continue
		}
		c := f.Cache.Current(t.Path)
		settled := f.Cache.Has(t.Path) && !f.Cache.IsStale(t.Path) && !f.Cache.Writes.IsBusy(t.Path)
		verified[t.Container+t.Unit] = settled && c.Exists && cgroup.Verify(*t, c.State) == nil ||
			settled && t.Unit != "" && !c.Exists && c.Unit.Known && c.Unit.CPUs.Equal(t.CPUs) // a stopped unit
	}
	return verified
}

// isMadeOf reports whether the files were made from such entries.
func (f *Files) isMadeOf(entries iter.Seq[appcpus.Entry]) bool {
	i := 0
	for e := range entries {
		if i == len(f.entries) || !e.KeepsFilesOf(&f.entries[i]) {
			return false
		}
		i++
	}
	return i == len(f.entries)
}
