package recovery

import (
	"maps"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Assignments returns the exclusive CPUs of the containers and units of a running node. CPUs
// in the journal that no container has found stay with their owner. Assignments of ResourceClaims are
// as in the journal, which is their only source. claims are all prepared claims.
func Assignments(m *inventory.Objects, read func(cgroup.Path) (cgroup.State, error), journal []pools.Assignment, claims []pools.Claim, s *desired.Settings) []pools.Assignment {
	e, instances := collect(m, read, journal, journal, claims, s)
	found := e.assign(instances)
	out := make([]pools.Assignment, 0, len(found))
	taken := e.claimed
	for key, cpus := range found {
		part := slices.ContainsFunc(journal, func(a pools.Assignment) bool { return a.Key == key && a.Part })
		out = append(out, pools.Assignment{Key: key, CPUs: cpus, Part: part})
		taken = taken.Union(cpus)
	}
	for _, a := range journal {
		if a.Claim != "" {
			out = append(out, a)
			continue
		}
		free := a.CPUs
		if _, known := found[a.Key]; known {
			free = cpuset.Set{}
		}
		free, away := free.Difference(taken), a.Away.Difference(taken)
		if !free.IsEmpty() || !away.IsEmpty() || len(a.Sharers) > 0 {
			out = append(out, pools.Assignment{Key: a.Key, CPUs: free, Away: away, Sharers: a.Sharers, Owners: a.Owners, Total: a.Total, Part: a.Part})
		}
	}
	return out
}

// Late returns held with the CPUs of late owners. They existed before the daemon started, but
// Assignments did not see them: their description failed, or the configuration did not name
// them. Each keeps its CPUs unless another owner holds them now. claims are all prepared claims.
func Late(m *inventory.Objects, owners []pools.Key, read func(cgroup.Path) (cgroup.State, error), held []pools.Assignment, claims []pools.Claim, s *desired.Settings) []pools.Assignment {
	if len(owners) == 0 {
		return held
	}
	isOwner := make(map[pools.Key]bool, len(held))
	var taken cpuset.Set
	for _, a := range held {
		isOwner[a.Key] = true
		taken = taken.Union(a.CPUs, a.Away)
	}
	late := make(map[pools.Key]bool)
	for _, k := range owners {
		if !isOwner[k] {
			late[k] = true
		}
	}
	if len(late) == 0 {
		return held
	}
	e, instances := collect(m, read, nil, held, claims, s)
	found := e.assign(slices.DeleteFunc(instances, func(i instance) bool { return !late[i.owner] }))
	for _, key := range slices.SortedFunc(maps.Keys(found), pools.Key.Compare) {
		if cpus := found[key]; !cpus.Overlaps(taken) {
			held = append(slices.Clip(held), pools.Assignment{Key: key, CPUs: cpus})
			taken = taken.Union(cpus)
		}
	}
	return held
}
