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

// CgroupConfig describes the machine and the kernel of a Cgroups.
type CgroupConfig struct {
	// Possible and Online are the CPUs of the machine. An empty Online means Possible.
	Possible, Online cpuset.Set
	// Nodes holds the NUMA nodes, all with memory. If it is empty, the machine has node 0.
	Nodes cpuset.Set
	// ClearPopulated reports whether an empty cpuset.cpus can be written to a cgroup with tasks
	// (kernel 7.0 and later). Before, the write fails with ENOSPC.
	ClearPopulated bool
	// IdleWeight is the value of cpu.weight while cpu.idle is set: 0 before kernel 6.12, then 1.
	IdleWeight uint64
	// DropWatches reports whether the removal of a cgroup removes its watch (kernel 7.1 and
	// later). Before, the watch stays until the watcher removes it.
	DropWatches bool
	// LeaveBehind makes each n-th change of a cpuset.cpus leave one thread on the previous CPUs;
	// 0 means never. A real kernel does so once in thousands of writes. See cgroup.FS.Gather.
	LeaveBehind int
	// Isolated holds the CPUs of isolcpus=.
	Isolated cpuset.Set
	// Partitions holds the kernel's rules for partitions.
	Partitions PartitionRules
	// Linger makes the cgroup of an ended container stay without tasks, as with a busy systemd or
	// a late removal by the runtime (CRI-O with cgroupfs).
	Linger bool
}

// CgroupWrite is one write to a file.
type CgroupWrite struct {
	Name  string // path below the mount
	Value string
}

// Cgroups is a cgroup v2 tree in memory. It implements cgroup.Tree, with the rules of the cpuset
// and cpu controllers that cpupoold depends on and the kernel's error numbers. The conformance
// suite compares it with real kernels. It is safe for concurrent use.
type Cgroups struct {
	config CgroupConfig

	mu         sync.Mutex // guards the fields below
	online     cpuset.Set
	limit      cpuset.Set // cpuset.cpus of the root of a container; empty: the root of a machine
	root       *cgroupNode
	partitions partitions
	writes     []CgroupWrite
	intercept  func(CgroupWrite) error
	onRead     func(name string)
	insisted   map[string]string // values of Insist by file
	notices    []*fakeInotify
	unwatched  error
	strays     map[int]cpuset.Set // affinities of threads that a change of CPUs left behind
	changes    int                // number of changes of cpuset.cpus with tasks
	unbound    error              // error of Unbind
	// units holds the cgroups with the name of a unit, holders the cgroup of each task. An index
	// is necessary: with a walk over all cgroups, tests of many containers would measure the
	// walk.
	units   map[string][]cgroup.Path
	holders map[int]*cgroupNode
	// ended holds the units with a removed cgroup, until Units takes them. noted reports whether
	// a Units takes them.
	ended []string
	noted bool
}

// NewCgroups returns a tree with only its root, which enables cpuset and cpu for its children.
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
	return &Cgroups{config: c, online: online, root: root, partitions: partitions{nodes: map[*cgroupNode]bool{}}, strays: make(map[int]cpuset.Set),
		units: make(map[string][]cgroup.Path), holders: make(map[int]*cgroupNode), insisted: make(map[string]string)}
}

// Intercept calls f before each write, without any lock. If f returns an error, the write fails
// with it and changes nothing. Nil removes f.
func (c *Cgroups) Intercept(f func(CgroupWrite) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.intercept = f
}

// OnRead calls f with the name of each file read, and with the name and a slash of each directory
// listed. A lock is held during f. Nil removes f.
func (c *Cgroups) OnRead(f func(name string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRead = f
}

// Writes returns all writes, including failed ones.
func (c *Cgroups) Writes() []CgroupWrite {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.writes)
}

// Forget clears the list of Writes, for tests with many writes.
func (c *Cgroups) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = nil
}

// SetOnline sets the online CPUs.
func (c *Cgroups) SetOnline(online cpuset.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.online = online
	c.applyHotplug()
}

// Online returns the online CPUs.
func (c *Cgroups) Online() cpuset.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.online
}

// SetLimit makes the root the root of a container with these CPUs, as a cgroup namespace shows it. An
// empty set makes it the root of the machine again.
func (c *Cgroups) SetLimit(cpus cpuset.Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = cpus
}

// Mkdir creates a cgroup, like mkdir(2).
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
	c.addChild(parent, path.Base(name))
	return nil
}

// addChild adds a child.
func (c *Cgroups) addChild(parent *cgroupNode, name string) {
	child := newCgroupNode(parent, parent.path.Join(name))
	parent.children[name] = child
	if unit, ok := child.path.Unit(); ok {
		c.units[unit] = append(c.units[unit], child.path)
	}
	c.notifyWatchers(parent, cgroup.Appeared, name)
}

// removeChild removes a child.
func (c *Cgroups) removeChild(parent *cgroupNode, name string) {
	gone := parent.children[name]
	delete(parent.children, name)
	c.dropIndex(gone)
	c.removePartitions(gone)
	c.unwatch(gone)
	c.notifyWatchers(parent, cgroup.Gone, name)
}

// MkdirAll creates a cgroup and its ancestors. It enables cpuset and cpu in each ancestor, as the
// kubelet, systemd and the runtimes do.
func (c *Cgroups) MkdirAll(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node := c.root
	for component := range strings.SplitSeq(name, "/") {
		node.enabled["cpuset"], node.enabled["cpu"] = true, true
		if node.children[component] == nil {
			c.addChild(node, component)
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
	c.removeChild(node.parent, path.Base(name))
	return nil
}

// Exit ends a task in any cgroup.
func (c *Cgroups) Exit(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endTask(pid)
}

// Remove removes a cgroup and its descendants and ends their tasks, as a runtime does at the end
// of a container.
func (c *Cgroups) Remove(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, err := c.find("remove", name)
	if err != nil {
		return err
	}
	c.removeChild(node.parent, path.Base(name))
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

// Write is an external write: it is neither recorded nor intercepted.
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
	if value == "" { // write(2) of zero bytes has no effect
		return nil
	}
	if err := c.store(node, file, strings.TrimSpace(value)); err != nil {
		return &fs.PathError{Op: "write", Path: name, Err: err}
	}
	c.notifyWatchers(node, cgroup.Written, file)
	if theirs, ok := c.insisted[name]; ok {
		if err := c.store(node, file, theirs); err != nil {
			return &fs.PathError{Op: "write", Path: name, Err: err}
		}
		c.notifyWatchers(node, cgroup.Written, file)
	}
	return nil
}

// Insist makes a process that writes a value to a file after each write of others. An empty
// value ends the process.
func (c *Cgroups) Insist(name, value string) error {
	c.mu.Lock()
	delete(c.insisted, name)
	if value != "" {
		c.insisted[name] = value
	}
	c.mu.Unlock()
	return c.Write(name, value)
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

// ForRuntime returns the tree for a Runtime. Its Mkdir accepts existing cgroups, and its Rmdir
// ends the tasks.
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

// kill ends the tasks of a cgroup.
func (c *Cgroups) kill(dir string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, err := c.find("kill", dir)
	if err == nil {
		c.endTasks(n)
	}
	return err
}
