package testnode

import (
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// unit finds the cgroup of a unit.
func (c *Cgroups) unit(name string) (cgroup.Path, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.units[name]; len(at) > 0 {
		return at[0], true
	}
	return "", false
}

// noteEnded has the units noted whose cgroup goes from now on, for takeEnded.
func (c *Cgroups) noteEnded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted, c.ended = true, nil
}

// takeEnded are the units whose cgroup has gone since the last call.
func (c *Cgroups) takeEnded() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended := c.ended
	c.ended = nil
	return ended
}

// forget drops what is kept about a cgroup that goes, and about all below it.
func (c *Cgroups) forget(gone *cgroupNode) {
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
		c.forget(child)
	}
}

// holder is the cgroup that a thread is in, nil if there is none.
func (c *Cgroups) holder(tid int) *cgroupNode { return c.holders[tid] }

// addTask puts a task into a cgroup, out of the one that it is in.
func (c *Cgroups) addTask(n *cgroupNode, pid int) {
	c.leave(pid)
	n.tasks = append(n.tasks, pid)
	c.holders[pid] = n
}

// leave takes a task out of its cgroup.
func (c *Cgroups) leave(pid int) {
	if n := c.holders[pid]; n != nil {
		n.tasks = slices.DeleteFunc(n.tasks, func(p int) bool { return p == pid })
		delete(c.holders, pid)
	}
}

// endTask ends a task, and with it what it had of its own.
func (c *Cgroups) endTask(pid int) {
	c.leave(pid)
	delete(c.strays, pid)
}

func (c *Cgroups) endTasks(n *cgroupNode) {
	for _, pid := range n.tasks {
		delete(c.holders, pid)
		delete(c.strays, pid)
	}
	n.tasks = nil
}
