package audit

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PoolName names a pool: management, shared or guaranteed. Type belongs to a management pool.
type PoolName struct {
	Pool string `json:"pool"`
	Type string `json:"type,omitempty"`
}

// Place is a cgroup with CPUs by the plan: the cgroup of a container, a unit or a slice.
type Place struct {
	PoolName
	// Pod is namespace/name; empty for a unit. Name is the name of the container or unit.
	Pod, Name string
	// Cgroup is the path below the cgroup root, without a leading slash.
	Cgroup string
	CPUs   cpuset.Set
	// Exclusive makes all other tasks foreign on CPUs. With PodPool, the pod shares them.
	Exclusive, PodPool bool
	// Mixed holds shared CPUs on which an exclusive container may also run.
	Mixed cpuset.Set
}

// Pool is a pool with its CPUs. Free CPUs of the guaranteed pool may be missing.
type Pool struct {
	PoolName
	CPUs cpuset.Set
}

// Ownership holds the places and pools of a node.
//
// A task in a place belongs on the CPUs of that place. A task without a place belongs on all CPUs
// without an owner. Kernel threads, and host services that are not confined, have no place. On
// all other CPUs, the task is foreign.
type Ownership struct {
	Places []Place
	Pools  []Pool
}

type index struct {
	Ownership
	places    map[string]int // by cgroup, the index in Places
	exclusive cpuset.Set     // exclusive CPUs
	all       cpuset.Set     // CPUs of all places and pools
}

func newIndex(o Ownership) *index {
	x := &index{Ownership: o, places: make(map[string]int, len(o.Places))}
	for i, p := range o.Places {
		x.places[p.Cgroup] = i
		x.all = x.all.Union(p.CPUs)
		if p.Exclusive {
			x.exclusive = x.exclusive.Union(p.CPUs)
		}
	}
	for _, p := range o.Pools {
		x.all = x.all.Union(p.CPUs)
	}
	return x
}

// place returns the innermost place that contains a cgroup.
func (x *index) place(cgroup string) (Place, bool) {
	for cgroup != "" {
		if i, known := x.places[cgroup]; known {
			return x.Places[i], true
		}
		cut := strings.LastIndexByte(cgroup, '/')
		cgroup = cgroup[:max(cut, 0)]
	}
	return Place{}, false
}

// foreign returns the cpus on which tasks in a cgroup are foreign.
func (x *index) foreign(cgroup string, cpus cpuset.Set) cpuset.Set {
	p, placed := x.place(cgroup)
	switch {
	case !placed:
		return cpus.Intersection(x.exclusive)
	case p.Exclusive:
		return cpus.Intersection(x.all).Difference(p.CPUs).Difference(p.Mixed)
	}
	// A slice contains the exclusive CPUs of its units, on which its own tasks are foreign.
	return cpus.Intersection(x.all).Difference(p.CPUs.Difference(x.exclusive))
}

// Owner is a container or unit with exclusive CPUs, or a pool with the other CPUs.
type Owner struct {
	PoolName
	Pod  string     `json:"pod,omitempty"`
	Name string     `json:"name,omitempty"`
	CPUs cpuset.Set `json:"cpus"` // the CPUs in question
}

// owners returns the owners of cpus in order. A CPU in several pools belongs to the first.
func (x *index) owners(cpus cpuset.Set) []Owner {
	var all []Owner
	take := func(o Owner, has cpuset.Set) {
		if o.CPUs = cpus.Intersection(has); !o.CPUs.IsEmpty() {
			all = append(all, o)
			cpus = cpus.Difference(has)
		}
	}
	for _, p := range x.Places {
		if p.Exclusive {
			o := Owner{PoolName: p.PoolName, Pod: p.Pod, Name: p.Name}
			if p.PodPool {
				o.Name = ""
			}
			take(o, p.CPUs)
		}
	}
	for _, p := range x.Pools {
		take(Owner{PoolName: p.PoolName}, p.CPUs)
	}
	return all
}

// Settled returns the parts of two Ownerships that agree. A CPU that changed its owner between
// them has no owner in o, and is in changed. A place has its CPUs of both.
func Settled(before, after Ownership) (o Ownership, changed cpuset.Set) {
	was, is := newIndex(before), newIndex(after)
	for cpu := range was.all.Union(is.all).All() {
		a, b := was.owners(cpuset.Of(cpu)), is.owners(cpuset.Of(cpu))
		if len(a) != len(b) || len(a) == 1 && (a[0].PoolName != b[0].PoolName || a[0].Pod != b[0].Pod || a[0].Name != b[0].Name) {
			changed = changed.Union(cpuset.Of(cpu))
		}
	}
	for _, p := range after.Places {
		if i, known := was.places[p.Cgroup]; known {
			p.CPUs, p.Mixed = p.CPUs.Union(before.Places[i].CPUs), p.Mixed.Union(before.Places[i].Mixed)
		}
		if p.Exclusive {
			p.CPUs = p.CPUs.Difference(changed)
		}
		o.Places = append(o.Places, p)
	}
	for _, p := range before.Places {
		if _, known := is.places[p.Cgroup]; !known {
			if p.Exclusive {
				p.CPUs = p.CPUs.Difference(changed)
			}
			o.Places = append(o.Places, p)
		}
	}
	for _, p := range after.Pools {
		o.Pools = append(o.Pools, Pool{PoolName: p.PoolName, CPUs: p.CPUs.Difference(changed)})
	}
	return o, changed
}
