package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// PodCgroups are the cgroups of pods and containers.
func (m *Inventory) PodCgroups() []cgroup.Path {
	all := m.Slices()
	for _, e := range m.Pods {
		all = append(all, e.Pause)
	}
	for _, e := range m.Containers {
		all = append(all, e.Path)
	}
	return all
}
