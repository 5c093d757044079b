package liveaudit

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/schedwatch"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

type holder struct {
	place   audit.Place // the first place with the CPU. It has no name if the pod is the owner
	places  []string    // cgroups of all places with the CPU
	cgroups []string    // tasks in these cgroups and below belong to the owner. Sorted
	key     string      // differs if cgroups differ
}

// holders returns the owners of exclusive CPUs, by CPU. If several places share a CPU, the slice of
// their pod is the owner: the pod may start further containers there before the daemon sees them.
func holders(o audit.Ownership) map[int]*holder {
	sharers := make(map[int][]int)
	for i := range o.Places {
		if p := &o.Places[i]; p.Exclusive {
			for cpu := range p.CPUs.All() {
				sharers[cpu] = append(sharers[cpu], i)
			}
		}
	}
	all := make(map[int]*holder, len(sharers))
	known := make(map[string]*holder) // CPUs with the same places have one holder
	for cpu, at := range sharers {
		h := &holder{place: o.Places[at[0]]}
		ofPod := len(at) > 1 || h.place.PodPool
		for _, i := range at {
			cgroup := o.Places[i].Cgroup
			h.places = append(h.places, cgroup)
			if ofPod {
				cgroup = path.Dir(cgroup)
			}
			h.cgroups = append(h.cgroups, cgroup)
		}
		if ofPod {
			h.place.Name = ""
		}
		slices.Sort(h.cgroups)
		h.cgroups = slices.Compact(h.cgroups)
		h.key = strings.Join(h.cgroups, "\n")
		id := strings.Join(h.places, "\n")
		if known[id] == nil {
			known[id] = h
		}
		all[cpu] = known[id]
	}
	return all
}

func (h *holder) runsOn(cpu int, effective func(cgroup string) (cpuset.Set, bool)) bool {
	return slices.ContainsFunc(h.places, func(cgroup string) bool {
		cpus, exists := effective(cgroup)
		return exists && cpus.Contains(cpu)
	})
}

// endsWith reports whether the owner ends with a cgroup. A pod ends as an owner with its last place: its
// slice stays, and other tasks may run on its CPUs from then on.
func (h *holder) endsWith(cgroup string, exists func(cgroup string) bool) bool {
	return slices.Contains(h.cgroups, cgroup) || slices.Contains(h.places, cgroup) &&
		!slices.ContainsFunc(h.places, func(other string) bool { return other != cgroup && exists(other) })
}

func (h *holder) owns(cgroup string) bool {
	return slices.ContainsFunc(h.cgroups, func(own string) bool {
		return cgroup == own || strings.HasPrefix(cgroup, own+"/")
	})
}

// owners returns the owners for the program, in order.
func owners(held map[int]*holder) []schedwatch.Owner {
	cpus := make(map[string][]int)
	for cpu, h := range held {
		cpus[h.key] = append(cpus[h.key], cpu)
	}
	var all []schedwatch.Owner
	for _, key := range slices.Sorted(maps.Keys(cpus)) {
		all = append(all, schedwatch.Owner{ID: key, CPUs: cpuset.Of(cpus[key]...), Cgroups: held[cpus[key][0]].cgroups})
	}
	return all
}
