package testnode

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Stray has a thread on CPUs of its own, which may be outside of what its cgroup has:
// until Unbind, or until the CPUs of its cgroup change.
func (c *Cgroups) Stray(tid int, cpus cpuset.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strays[tid] = cpus
}

// moveTasks is what update_tasks_cpumask does when the effective set of a cgroup has
// changed: everybody goes along, those who were left behind before, too.
func (c *Cgroups) moveTasks(n *cgroupNode, before cpuset.Set) {
	if len(n.tasks) == 0 || c.effective(n).Equal(before) {
		return
	}
	for _, tid := range n.tasks {
		delete(c.strays, tid)
	}
	c.changes++
	if every := c.config.LeaveBehind; every > 0 && c.changes%every == 0 {
		c.strays[n.tasks[len(n.tasks)-1]] = before
	}
}

// Inside implements cgroup.Threads.
func (c *Cgroups) Inside(tid int, cpus cpuset.Set) (bool, error) {
	may, err := c.Affinity(tid)
	return may.IsSubsetOf(cpus), err
}

// Affinity returns the online CPUs that a thread may run on.
func (c *Cgroups) Affinity(tid int) (cpuset.Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.holder(tid)
	if node == nil {
		return cpuset.Set{}, syscall.ESRCH
	}
	if cpus, stray := c.strays[tid]; stray {
		return cpus.Intersection(c.online), nil
	}
	return c.effective(node), nil
}

// Unbind implements cgroup.Threads.
func (c *Cgroups) Unbind(tid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holder(tid) == nil {
		return syscall.ESRCH
	}
	if c.unbound != nil {
		return c.unbound
	}
	delete(c.strays, tid)
	return nil
}

// RefuseUnbind has Unbind fail, until it is called with nil.
func (c *Cgroups) RefuseUnbind(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unbound = err
}
