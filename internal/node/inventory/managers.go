package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// NotePlacing records the placement by another CPU manager. The last one stays after the
// manager's configuration has changed: it writes a cpuset once, at the creation.
func (e *Container) NotePlacing(p managers.Placing) { e.placing = p }

// Placing returns the placement by which another CPU manager has placed the container. Without
// such a manager its kind is empty.
func (e *Container) Placing() managers.Placing { return e.placing }

// IsPlacedElsewhere reports whether another NRI plugin, or the kubelet, gave the container
// CPUs before NRI asked the daemon about it.
func (e *Container) IsPlacedElsewhere() bool { return e.placedElsewhere }

// LeftToPlugins returns the containers that are placed elsewhere, sorted, for the journal:
// no other source reports them after a restart of the daemon.
func (m *Inventory) LeftToPlugins() []managers.Left {
	var all []managers.Left
	for id, e := range m.objects.containers {
		if e.placedElsewhere && e.Container.State != cri.Exited {
			k := e.Key()
			all = append(all, managers.Left{PodUID: k.PodUID, Container: k.Container, ID: id})
		}
	}
	slices.SortFunc(all, func(a, b managers.Left) int {
		return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container), strings.Compare(a.ID, b.ID))
	})
	return all
}

// Recall marks the containers that the journal of an earlier daemon lists as placed
// elsewhere. An entry without id, of an older daemon, stands for each instance of the
// container.
func (m *Inventory) Recall(all []managers.Left) {
	for id, e := range m.objects.containers {
		k := e.Key()
		e.placedElsewhere = e.placedElsewhere || slices.ContainsFunc(all, func(l managers.Left) bool {
			return l.ID == id || l.ID == "" && l.PodUID == k.PodUID && l.Container == k.Container
		})
	}
}
