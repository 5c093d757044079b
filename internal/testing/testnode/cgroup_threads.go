package testnode

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
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

// AddThreads adds n threads with the ids from first on to a cgroup.
func (c *Cgroups) AddThreads(name string, first, n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.find("open", name)
	if err != nil {
		return err
	}
	for tid := first; tid < first+n; tid++ {
		c.addTask(node, tid)
	}
	return nil
}

// ReadParts is like [Cgroups.ReadFile] for a file of any size. It does not hold a lock while it prints a long list or calls
// visit, like the kernel.
func (c *Cgroups) ReadParts(name string, buffer []byte, visit func(part []byte) error) error {
	if file := path.Base(name); file != "cgroup.threads" {
		return &fs.PathError{Op: "read", Path: name, Err: syscall.EINVAL} // the daemon reads no other lists
	}
	tasks, err := c.tasksIn(name)
	var text []byte
	for i := 0; err == nil && (i < len(tasks) || len(text) > 0); {
		for ; i < len(tasks) && len(text) < len(buffer); i++ {
			text = append(strconv.AppendInt(text, int64(tasks[i]), 10), '\n')
		}
		n := copy(buffer, text)
		text = append(text[:0], text[n:]...)
		err = visit(buffer[:n])
	}
	return err
}

// tasksIn returns the threads in the list of a cgroup.
func (c *Cgroups) tasksIn(name string) ([]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onRead != nil {
		c.onRead(name)
	}
	node, _, err := c.findFile(name)
	if err != nil {
		return nil, err
	}
	return slices.Clone(node.tasks), nil
}
