package testnode

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// unit returns the cgroup of a unit.
func (c *Cgroups) unit(name string) (cgroup.Path, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.units[name]; len(at) > 0 {
		return at[0], true
	}
	return "", false
}

// noteEnded starts the collection of ended units for takeEnded.
func (c *Cgroups) noteEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted, c.ended = true, nil
}

// takeEnded returns the units whose cgroup was removed since the last call.
func (c *Cgroups) takeEnded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.ended
	c.ended = nil
	return ended
}

// dropIndex drops the data about a removed cgroup and its descendants.
func (c *Cgroups) dropIndex(gone *cgroupNode) {
	c.endTasks(gone)
	if unit, ok := gone.path.Unit(); ok {
		at := slices.DeleteFunc(c.units[unit], func(p cgroup.Path) bool { return p == gone.path })
		if c.units[unit] = at; len(at) == 0 {
			delete(c.units, unit)
			if c.noted {
				c.ended = append(c.ended, unit)
			}
		}
	}
	for _, child := range gone.children {
		c.dropIndex(child)
	}
}

// cgroupOf returns the cgroup of a thread, or nil.
func (c *Cgroups) cgroupOf(tid int) *cgroupNode { return c.holders[tid] }

// addTask moves a task into a cgroup.
func (c *Cgroups) addTask(n *cgroupNode, pid int) {
	c.removeTask(pid)
	n.tasks = append(n.tasks, pid)
	c.holders[pid] = n
}

// removeTask removes a task from its cgroup.
func (c *Cgroups) removeTask(pid int) {
	if n := c.holders[pid]; n != nil {
		n.tasks = slices.DeleteFunc(n.tasks, func(p int) bool { return p == pid })
		delete(c.holders, pid)
	}
}

// endTask ends a task and drops its affinity.
func (c *Cgroups) endTask(pid int) {
	c.removeTask(pid)
	delete(c.strays, pid)
}

func (c *Cgroups) endTasks(n *cgroupNode) {
	for _, pid := range n.tasks {
		delete(c.holders, pid)
		delete(c.strays, pid)
	}
	n.tasks = nil
}
