package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// podCgroups are the cgroups of pods and containers.
func (m *Model) PodCgroups() []cgroup.Path {
	all := m.Slices()
	for _, e := range m.Pods {
		all = append(all, e.Pause)
	}
	for _, e := range m.Containers {
		all = append(all, e.Path)
	}
	return all
}
