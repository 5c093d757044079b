package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// SliceOf returns the slice that holds a live container of the pod.
func (m *Inventory) SliceOf(pod pools.PodPlan) cgroup.Path {
	for _, c := range pod.Containers {
		if c.State == pools.Exited {
			continue
		}
		sandbox := c.ID
		if c.Kind == pools.App {
			e := m.Containers[c.ID]
			if e == nil {
				continue
			}
			sandbox = e.Container.PodID
		}
		if e := m.Pods[sandbox]; e != nil && e.Slice != "" {
			return e.Slice
		}
	}
	return ""
}
