package kernelstate

import (
	"iter"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Held returns the CPUs that a container with the cgroup path cannot use now, with the
// cgroup that prevents it. That is a cgroup on these CPUs that must not share them, by the
// last reading, or the slice of its pod if the slice lacks them. CPUs that a cgroup has
// requested count too. In a slice with CPUs they count only if the slice has them, and a
// cgroup on CPUs of others does not keep these.
func (t *Cache) Held(targets []cgroup.Target, p *pools.Placement, path cgroup.Path) iter.Seq2[cgroup.Path, cpuset.Set] {
	alone, runs := p.Exclusive || p.InPodPool(), p.Runs()
	return func(yield func(cgroup.Path, cpuset.Set) bool) {
		bounds := t.bounds(targets)
		if b, ok := bounds[path.Parent()]; ok && !yield(path.Parent(), runs.Difference(b)) {
			return
		}
		var users map[cgroup.Path]bool
		if alone { // a container that shares its CPUs conflicts only with owners
			users = t.usersOf(runs)
		}
		for i := range targets {
			o := &targets[i]
			if o.Container == p.ID || o.CPUs.IsEmpty() || o.Around || !o.Exclusive && !alone {
				continue
			}
			if o.Exclusive && o.Container+o.Unit == "" && o.Path.Parent() == path.Parent() {
				continue // the cgroup of the container's sandbox, in which it will run
			}
			if alone && !users[o.Path] {
				continue
			}
			c := t.current[o.Path]
			if !c.Exists || !c.Effective.Overlaps(runs) && !c.CPUs.Overlaps(runs) {
				continue
			}
			if o.Group != "" && p.InPodPool() && o.Path.Parent() == path.Parent() && !c.Partition.Valid() {
				continue // both share the CPUs of their pod or claim, and the kernel keeps neither off them
			}
			held, own := c.Effective.Union(c.CPUs), cpuset.Set{}
			if b, ok := bounds[o.Path.Parent()]; ok {
				held = c.Effective.Union(c.CPUs.Intersection(b))
				own = held.Intersection(o.Own())
			} else if o.Exclusive {
				own = held.Difference(o.Mixed)
			}
			taken := own
			if alone {
				taken = taken.Union(held.Intersection(p.CPUs))
			}
			if !taken.IsEmpty() && !yield(o.Path, taken) {
				return
			}
		}
	}
}

// usersOf returns the cgroups that are on one of the CPUs, or have requested it. For a new owner
// they are few. A search for the state of each target would take longer, and the runtime waits for the reply.
func (t *Cache) usersOf(cpus cpuset.Set) map[cgroup.Path]bool {
	var users map[cgroup.Path]bool
	for p, c := range t.current {
		if c.Exists && (c.Effective.Overlaps(cpus) || c.CPUs.Overlaps(cpus)) {
			if users == nil {
				users = make(map[cgroup.Path]bool)
			}
			users[p] = true
		}
	}
	return users
}

// bounds returns the CPUs of the slices of pods that confine their containers.
func (t *Cache) bounds(targets []cgroup.Target) map[cgroup.Path]cpuset.Set {
	var all map[cgroup.Path]cpuset.Set
	for i := range targets {
		if !targets[i].Confines() {
			continue // nearly all targets: a reply to the runtime waits for this loop
		}
		if c := t.current[targets[i].Path]; c.Exists && !c.CPUs.IsEmpty() {
			if all == nil {
				all = make(map[cgroup.Path]cpuset.Set)
			}
			all[targets[i].Path] = c.CPUs
		}
	}
	return all
}
