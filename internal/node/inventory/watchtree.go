package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Slices are the cgroups of pods that the runtime has told of.
func (m *Inventory) Slices() []cgroup.Path {
	all := make([]cgroup.Path, 0, len(m.Pods))
	for _, e := range m.Pods {
		if e.Slice != "" {
			all = append(all, e.Slice)
		}
	}
	return all
}
