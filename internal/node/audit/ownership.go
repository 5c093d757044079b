package audit

import (
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// PoolName names a pool: management, shared or guaranteed, and for management pools the
// workload type.
type PoolName struct {
	Pool string `json:"pool"`
	Type string `json:"type,omitempty"`
}

// Place is a cgroup that has a place on the node: a container's, a unit's or a slice's.
type Place struct {
	PoolName
	// Pod is namespace/name; empty for a unit. Name is the container's or the unit's.
	Pod, Name string
	// Cgroup is the path below the cgroup root, without a leading slash.
	Cgroup string
	CPUs   cpuset.Set
	// Exclusive says that nobody else may run on CPUs.
	Exclusive bool
	// Mixed are CPUs that one that is Exclusive shares with others, beside CPUs.
	Mixed cpuset.Set
}

// Pool is a pool with its CPUs; of guaranteed ones those that nobody has to himself are
// not needed.
type Pool struct {
	PoolName
	CPUs cpuset.Set
}

// Ownership is whose the CPUs of a node are.
//
// A task in a place is at home on the CPUs of that place. One in none (services of the
// host that nobody has confined, kernel threads) is at home where nobody has CPUs to
// himself.
type Ownership struct {
	Places []Place
	Pools  []Pool
}

// index answers questions about an Ownership.
type index struct {
	Ownership
	places    map[string]int // by cgroup, the index in Places
	exclusive cpuset.Set     // that somebody has to himself
	all       cpuset.Set     // of any place or pool
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

// place is the innermost place that a cgroup is in.
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

// foreign are those of cpus that are somebody else's to who is in a cgroup.
func (x *index) foreign(cgroup string, cpus cpuset.Set) cpuset.Set {
	p, placed := x.place(cgroup)
	switch {
	case !placed:
		return cpus.Intersection(x.exclusive)
	case p.Exclusive:
		return cpus.Intersection(x.all).Difference(p.CPUs).Difference(p.Mixed)
	}
	// A slice has what units in it have, and what is theirs alone is not its own.
	return cpus.Intersection(x.all).Difference(p.CPUs.Difference(x.exclusive))
}

// Owner is whose CPUs are: a container's or a unit's that has them to itself, else a
// pool's.
type Owner struct {
	PoolName
	Pod  string     `json:"pod,omitempty"`
	Name string     `json:"name,omitempty"`
	CPUs cpuset.Set `json:"cpus"` // those that are meant
}

// owners says whose each of cpus is, grouped by owner in the order of the Ownership. What
// belongs to several pools is the first one's.
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
			take(Owner{PoolName: p.PoolName, Pod: p.Pod, Name: p.Name}, p.CPUs)
		}
	}
	for _, p := range x.Pools {
		take(Owner{PoolName: p.PoolName}, p.CPUs)
	}
	return all
}

// Settled is what two Ownerships agree on: CPUs that changed hands meanwhile belong to
// nobody in it, and who has other CPUs than before is at home on all of them. Changed are
// those CPUs.
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
