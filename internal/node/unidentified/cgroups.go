// Package unidentified holds the cgroups of containers that the runtime has not reported yet,
// because it reports containers after their entrypoint has started. They wait in the shared pool.
// The daemon writes only files: a systemd property that changes while the OCI runtime creates the
// scope can prevent the start. It never limits pods and the slices above them.
package unidentified

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sources are the values that a [Cgroups] reads. It drops cgroups from the cache.
type Sources struct {
	Host      *hostenv.Host
	Inventory *inventory.Inventory
	Cache     *kernelstate.Cache
	Journal   *undo.Journal
	Others    *desired.OtherManagers
}

// Cgroups holds the cgroups of unidentified containers.
type Cgroups struct {
	Sources
	all map[cgroup.Path]found
}

// found is the cgroup of an unidentified container.
type found struct {
	id   string
	cpus cpuset.Set // its target
}

// New returns a Cgroups without entries.
func New(s Sources) *Cgroups { return &Cgroups{s, make(map[cgroup.Path]found)} }

// Track records a cgroup in the slice of a pod. It returns the ID of its container or sandbox if
// the container is unidentified.
func (c *Cgroups) Track(p cgroup.Path) (id string) {
	id = inventory.IDAt(p, c.Host.Driver)
	if id == "" || c.Host.Observes || c.Host.CPUManager != nil || // the kubelet's CPU manager places it
		c.Host.Runtime == nil || c.Inventory.Container(id) != nil || c.Inventory.Pod(id) != nil || c.Has(p) || c.Others.MayClaim(c.Inventory, p.Parent()) {
		return ""
	}
	c.all[p] = found{id: id}
	return id
}

// Limit adds targets for the cgroups to want, and drops cgroups that are targets now. A cgroup with
// a cpuset has it from its specification, and keeps it unless the cpuset contains exclusive CPUs.
func (c *Cgroups) Limit(shared, owned cpuset.Set, want []cgroup.Target) []cgroup.Target {
	for _, t := range want {
		if c.Has(t.Path) {
			delete(c.all, t.Path)
			c.Cache.Forget(t.Path) // its record may be known now
		}
	}
	maps.DeleteFunc(c.all, func(_ cgroup.Path, f found) bool {
		e := c.Inventory.Container(f.id)
		return e != nil && c.Others.Claims(c.Inventory, e) // it has no target
	})
	shared = shared.Difference(owned)
	if shared.IsEmpty() {
		return want
	}
	var more []cgroup.Target
	for p, f := range c.all {
		st, err := c.Cache.State(p)
		if errors.Is(err, cgroup.ErrGone) {
			delete(c.all, p)
			continue
		}
		if err != nil || !st.HasCPUSet {
			continue // there is no file to write
		}
		if !st.CPUs.IsEmpty() && !st.CPUs.Overlaps(owned) && !c.Journal.HasOriginal(p, cgroup.FileCPUs) {
			continue
		}
		f.cpus = shared
		c.all[p] = f
		more = append(more, cgroup.Target{Path: p, CPUs: shared, Reason: "the runtime has not reported the container yet"})
	}
	slices.SortFunc(more, func(a, b cgroup.Target) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return append(want, more...)
}

// Forget drops a cgroup that is removed.
func (c *Cgroups) Forget(p cgroup.Path) { delete(c.all, p) }

// Has reports whether the container of a cgroup is unidentified.
func (c *Cgroups) Has(p cgroup.Path) bool {
	_, ok := c.all[p]
	return ok
}

// IsEmpty reports whether no container is unidentified.
func (c *Cgroups) IsEmpty() bool { return len(c.all) == 0 }

// All returns the cgroups with the CPUs of their targets.
func (c *Cgroups) All() iter.Seq2[cgroup.Path, cpuset.Set] {
	return func(yield func(cgroup.Path, cpuset.Set) bool) {
		for p, f := range c.all {
			if !yield(p, f.cpus) {
				return
			}
		}
	}
}
