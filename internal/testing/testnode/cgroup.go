package testnode

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// CgroupConfig is the machine and the kernel that Cgroups plays.
type CgroupConfig struct {
	// Possible and Online are the machine's CPUs; Online empty means Possible.
	Possible, Online cpuset.Set
	// Nodes are the NUMA nodes, all with memory; empty means node 0 alone.
	Nodes cpuset.Set
	// ClearPopulated says that an empty cpuset.cpus can be written to a cgroup
	// with tasks, as from kernel 7.0 on; before it is ENOSPC.
	ClearPopulated bool
	// IdleWeight is what cpu.weight reads while cpu.idle is set: 0 before kernel
	// 6.12, 1 since.
	IdleWeight uint64
	// DropWatches says that the watch of a removed cgroup goes with it, as from
	// kernel 7.1 on; before it stays until it is removed.
	DropWatches bool
	// LeaveBehind has each n-th change of a cpuset.cpus leave one thread of the
	// cgroup on the CPUs that it had, as a real kernel does once in thousands of
	// writes; 0 for never. See cgroup.FS.Gather.
	LeaveBehind int
	// Isolated are the CPUs of isolcpus=.
	Isolated cpuset.Set
	// Partitions are the kernel's rules for partitions.
	Partitions PartitionRules
	// Linger has a container's cgroup stay, without its tasks, when the container has
	// ended: systemd is busy, or the runtime removes it later (CRI-O with cgroupfs).
	Linger bool
}

// CgroupWrite is one write to a file.
type CgroupWrite struct {
	Name  string // below the mount, with the file's name
	Value string
}

// Cgroups is a cgroup v2 tree in memory: the rules of the cpuset and cpu
// controllers that cpupoold relies on, with the kernel's error numbers. It
// implements cgroup.Tree. The conformance suite holds it to the real kernel.
// It can be used by several goroutines.
type Cgroups struct {
	config CgroupConfig

	mu        sync.Mutex // guards what follows
	online    cpuset.Set
	root      *cgroupNode
	parted    partitions
	writes    []CgroupWrite
	intercept func(CgroupWrite) error
	onRead    func(name string)
	notices   []*notices
	unwatched error
	strays    map[int]cpuset.Set // of threads that were left behind
	changes   int                // of a cpuset.cpus with tasks
	unbound   error              // of Unbind
	// units are the cgroups that are named like units, and holders those of the tasks. They
	// follow each change: a walk over all cgroups at each look would be what a test of many
	// containers measures.
	units   map[string][]cgroup.Path
	holders map[int]*cgroupNode
	// ended are the units whose cgroup has gone, until the systemd that asks for them has
	// forgotten them; noted says that there is one.
	ended []string
	noted bool
}

// NewCgroups returns a tree that has only its root, with cpuset and cpu enabled
// for the root's children.
func NewCgroups(c CgroupConfig) *Cgroups {
	online := c.Online
	if online.IsEmpty() {
		online = c.Possible
	}
	if c.Nodes.IsEmpty() {
		c.Nodes = cpuset.Of(0)
	}
	root := newCgroupNode(nil, "")
	root.enabled = map[string]bool{"cpuset": true, "cpu": true}
	return &Cgroups{config: c, online: online, root: root, parted: partitions{nodes: map[*cgroupNode]bool{}}, strays: make(map[int]cpuset.Set),
		units: make(map[string][]cgroup.Path), holders: make(map[int]*cgroupNode)}
}

// Intercept has f called before each write, without any lock held; if f returns
// an error the write fails with it and changes nothing. Nil ends it.
func (c *Cgroups) Intercept(f func(CgroupWrite) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = f
}

// OnRead has f called with the name of each file that is read, and of each directory that
// is listed, with a slash behind; with a lock held. Nil ends it.
func (c *Cgroups) OnRead(f func(name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRead = f
}

// Writes returns the writes so far, those that failed included.
func (c *Cgroups) Writes() []CgroupWrite {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// Forget makes Writes begin anew, for tests that write more than they can remember.
func (c *Cgroups) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = nil
}

// SetOnline plugs CPUs in and out.
func (c *Cgroups) SetOnline(online cpuset.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.online = online
	c.plugged()
}

// Online are the CPUs that are plugged in.
func (c *Cgroups) Online() cpuset.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.online
}

// Mkdir makes a cgroup, like mkdir(2).
func (c *Cgroups) Mkdir(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	parent, err := c.find("mkdir", path.Dir(name))
	if err != nil {
		return err
	}
	if parent.children[path.Base(name)] != nil {
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.EEXIST}
	}
	c.adopt(parent, path.Base(name))
	return nil
}

// adopt makes a child.
func (c *Cgroups) adopt(parent *cgroupNode, name string) {
	child := newCgroupNode(parent, parent.path.Join(name))
	parent.children[name] = child
	if unit, ok := child.path.Unit(); ok {
		c.units[unit] = append(c.units[unit], child.path)
	}
	c.tell(parent, cgroup.Appeared, name)
}

// orphan removes a child.
func (c *Cgroups) orphan(parent *cgroupNode, name string) {
	gone := parent.children[name]
	delete(parent.children, name)
	c.forget(gone)
	c.dissolve(gone)
	c.unwatch(gone)
	c.tell(parent, cgroup.Gone, name)
}

// MkdirAll makes a cgroup and its ancestors, all of which get cpuset and cpu, as
// kubelet, systemd and the runtimes make them.
func (c *Cgroups) MkdirAll(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.root
	for component := range strings.SplitSeq(name, "/") {
		node.enabled["cpuset"], node.enabled["cpu"] = true, true
		if node.children[component] == nil {
			c.adopt(node, component)
		}
		node = node.children[component]
	}
}

// Rmdir removes a cgroup without children and tasks.
func (c *Cgroups) Rmdir(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.find("rmdir", name)
	if err != nil {
		return err
	}
	if len(node.children) > 0 || len(node.tasks) > 0 || node.parent == nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: syscall.EBUSY}
	}
	c.orphan(node.parent, path.Base(name))
	return nil
}

// Exit ends a task, wherever it is.
func (c *Cgroups) Exit(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTask(pid)
}

// Remove ends the tasks of a cgroup and of all below it and removes them, as a
// runtime does at the end of a container.
func (c *Cgroups) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.find("remove", name)
	if err != nil {
		return err
	}
	c.orphan(node.parent, path.Base(name))
	return nil
}

// ReadFile implements cgroup.Tree.
func (c *Cgroups) ReadFile(name string, limit int) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onRead != nil {
		c.onRead(name)
	}
	node, file, err := c.findFile(name)
	if err != nil {
		return nil, err
	}
	text, err := c.show(node, file)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if len(text) > limit {
		return nil, &fs.PathError{Op: "read", Path: name, Err: syscall.EFBIG}
	}
	return []byte(text), nil
}

// WriteFile implements cgroup.Tree.
func (c *Cgroups) WriteFile(name, value string) error {
	w := CgroupWrite{Name: name, Value: value}
	c.mu.Lock()
	c.writes = append(c.writes, w)
	intercept := c.intercept
	c.mu.Unlock()
	if intercept != nil {
		if err := intercept(w); err != nil {
			return &fs.PathError{Op: "write", Path: name, Err: err}
		}
	}
	return c.Write(name, value)
}

// Write is a write of somebody else, the runtime or a task: it is not recorded
// and not intercepted.
func (c *Cgroups) Write(name, value string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, file, err := c.findFile(name)
	if err != nil {
		return err
	}
	if _, err := c.show(node, file); err != nil {
		return &fs.PathError{Op: "open", Path: name, Err: err}
	}
	if value == "" { // write(2) of no bytes does nothing
		return nil
	}
	if err := c.store(node, file, strings.TrimSpace(value)); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	c.tell(node, cgroup.Written, file)
	return nil
}

// ReadDir implements cgroup.Tree.
func (c *Cgroups) ReadDir(name string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.onRead != nil {
		c.onRead(name + "/")
	}
	node, err := c.find("open", name)
	if err != nil {
		return nil, err
	}
	var names []string
	for child := range node.children {
		names = append(names, child)
	}
	return names, nil
}

func (c *Cgroups) find(op, name string) (*cgroupNode, error) {
	node := c.root
	if name == "." || name == "" {
		return node, nil
	}
	for component := range strings.SplitSeq(name, "/") {
		if node = node.children[component]; node == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
	}
	return node, nil
}

func (c *Cgroups) findFile(name string) (*cgroupNode, string, error) {
	node, err := c.find("open", path.Dir(name))
	return node, path.Base(name), err
}

// ForRuntime is the tree as a Runtime uses it: cgroups may be there already, and
// at its end a container's tasks are killed.
func (c *Cgroups) ForRuntime() Tree { return runtimeTree{c} }

type runtimeTree struct{ *Cgroups }

func (t runtimeTree) Mkdir(dir string) error {
	if err := t.Cgroups.Mkdir(dir); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (t runtimeTree) Rmdir(dir string) error {
	if t.config.Linger {
		return t.kill(dir)
	}
	return t.Remove(dir)
}

// kill ends the tasks of a cgroup, and leaves it.
func (c *Cgroups) kill(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find("kill", dir)
	if err == nil {
		c.endTasks(n)
	}
	return err
}
