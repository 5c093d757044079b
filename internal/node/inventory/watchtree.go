package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// slices are the cgroups of pods that the runtime has told of.
func (m *Model) Slices() []cgroup.Path {
	all := make([]cgroup.Path, 0, len(m.Pods))
	for _, e := range m.Pods {
		if e.Slice != "" {
			all = append(all, e.Slice)
		}
	}
	return all
}
