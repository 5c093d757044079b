package inventory

import (
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CgroupOf is the cgroup of a container of a plan, "" if that is not known.
func (m *Inventory) CgroupOf(c *pools.Placement) cgroup.Path {
	if c.Kind == pools.Infra {
		if e := m.Pods[c.ID]; e != nil {
			return e.Pause
		}
		return ""
	}
	if e := m.Containers[c.ID]; e != nil {
		return e.Path
	}
	return ""
}
