package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// ForeignBy is where the container is. One that may run everywhere has no CPUs that
// others could keep off.
func (e *Container) ForeignBy(claim managers.Claim, online cpuset.Set, read func(cgroup.Path) (cgroup.State, error)) *pools.Foreign {
	f := &pools.Foreign{Manager: claim.By, CPUs: e.Recorded, Alone: claim.Alone}
	if st, err := read(e.Path); err == nil {
		if f.CPUs, f.Runs = st.CPUs.Intersection(st.Effective), st.Effective; st.Partition.Valid() {
			f.CPUs, f.Alone = st.Effective, true
		}
	}
	if f.CPUs = f.CPUs.Intersection(online); online.IsSubsetOf(f.CPUs) {
		f.CPUs = cpuset.Set{}
	}
	if !f.CPUs.IsEmpty() {
		f.Runs = cpuset.Set{}
	}
	return f
}

// LeftToPlugins are those of them of which nothing but NRI tells.
func (m *Inventory) LeftToPlugins() []undo.Left {
	var all []undo.Left
	for id, e := range m.containers {
		if e.PlacedElsewhere && e.Container.State != cri.Exited {
			k := m.KeyOf(e)
			all = append(all, undo.Left{PodUID: k.PodUID, Container: k.Container, ID: id})
		}
	}
	slices.SortFunc(all, func(a, b undo.Left) int {
		return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
	})
	return all
}

// Recall marks the containers that were left to plugins before the daemon's restart. One
// that has taken the place of such a one meanwhile is another, as far as there are IDs.
func (m *Inventory) Recall(all []undo.Left) {
	for id, e := range m.containers {
		k := m.KeyOf(e)
		e.PlacedElsewhere = e.PlacedElsewhere || slices.ContainsFunc(all, func(l undo.Left) bool {
			return l.ID == id || l.ID == "" && l.PodUID == k.PodUID && l.Container == k.Container
		})
	}
}
