package testnode

import (
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Stray sets the affinity of a thread, also to CPUs outside its cgroup. It lasts until Unbind or
// until the CPUs of its cgroup change.
func (c *Cgroups) Stray(tid int, cpus cpuset.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strays[tid] = cpus
}

// moveTasks handles a change of the effective set of a cgroup, like update_tasks_cpumask. All
// threads move, including earlier stray ones.
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

// Affinity returns the online CPUs on which a thread may run.
func (c *Cgroups) Affinity(tid int) (cpuset.Set, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.cgroupOf(tid)
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
	if c.cgroupOf(tid) == nil {
		return syscall.ESRCH
	}
	if c.unbound != nil {
		return c.unbound
	}
	delete(c.strays, tid)
	return nil
}

// RefuseUnbind makes Unbind fail with err, until it is called with nil.
func (c *Cgroups) RefuseUnbind(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unbound = err
}
