package testnode

import (
	"errors"
	"slices"
	"sync"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// notices tell of a tree in memory what inotify tells of the kernel's.
type notices struct {
	tree *Cgroups
	wake chan struct{} // holds one token while queue or err is not empty

	// The tree's lock guards the watches: they are on directories, not on names.
	dirs map[*cgroupNode]string
	// byName are the names that were added last.
	byName map[string]*cgroupNode

	mu      sync.Mutex // guards what follows; taken after the tree's lock
	queue   []cgroup.Notice
	err     error
	waits   bool       // the reader has taken all notices, and waits for the next
	changed *sync.Cond // of waits and err
}

// Notify implements cgroup.Notifier.
func (c *Cgroups) Notify() (cgroup.Notices, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwatched != nil {
		return nil, c.unwatched
	}
	n := &notices{tree: c, wake: make(chan struct{}, 1), dirs: make(map[*cgroupNode]string), byName: make(map[string]*cgroupNode)}
	n.changed = sync.NewCond(&n.mu)
	c.notices = append(c.notices, n)
	return n, nil
}

// AwaitReaders returns when each reader of notices has taken all that were queued.
func (c *Cgroups) AwaitReaders() {
	c.mu.Lock()
	readers := slices.Clone(c.notices)
	c.mu.Unlock()
	for _, n := range readers {
		n.mu.Lock()
		for n.err == nil && (!n.waits || len(n.queue) > 0) {
			n.changed.Wait()
		}
		n.mu.Unlock()
	}
}

// Watches is the number of watches that the kernel would hold, those of removed
// cgroups included.
func (c *Cgroups) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, n := range c.notices {
		count += len(n.dirs)
	}
	return count
}

// LoseNotices loses what happens in f, as a queue of the kernel's that is full: those
// who are told of changes are only told that some are lost.
func (c *Cgroups) LoseNotices(f func()) {
	c.mu.Lock()
	told := c.notices
	c.notices = nil
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = told
	for _, n := range c.notices {
		n.post(cgroup.Notice{Kind: cgroup.Overflow})
	}
}

// FailNotices ends all that are told of changes, and lets no new ones begin until
// it is called with nil.
func (c *Cgroups) FailNotices(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unwatched = err
	if err == nil {
		return
	}
	for _, n := range c.notices {
		n.fail(err)
	}
	c.notices = nil
}

// tell is called with the tree's lock held.
func (c *Cgroups) tell(node *cgroupNode, kind cgroup.ChangeKind, name string) {
	for _, n := range c.notices {
		if dir, ok := n.dirs[node]; ok {
			n.post(cgroup.Notice{Kind: kind, Dir: dir, Name: name})
		}
	}
}

// unwatch follows the end of a cgroup, with the tree's lock held.
func (c *Cgroups) unwatch(gone *cgroupNode) {
	if !c.config.DropWatches {
		return
	}
	for _, n := range c.notices {
		delete(n.dirs, gone)
	}
	for _, child := range gone.children {
		c.unwatch(child)
	}
}

func (n *notices) Add(dir string) error {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	node, err := n.tree.find("watch", dir)
	if err != nil {
		return err
	}
	n.dirs[node], n.byName[dir] = dir, node
	return nil
}

func (n *notices) Remove(dir string) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	delete(n.dirs, n.byName[dir])
	delete(n.byName, dir)
}

func (n *notices) Next() (cgroup.Notice, error) {
	for {
		if notice, ok, err := n.first(); ok || err != nil {
			return notice, err
		}
		<-n.wake
	}
}

func (n *notices) first() (notice cgroup.Notice, ok bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil || len(n.queue) == 0 {
		n.waits = true
		n.changed.Broadcast()
		return cgroup.Notice{}, false, n.err
	}
	n.waits = false
	notice, n.queue = n.queue[0], n.queue[1:]
	return notice, true, nil
}

func (n *notices) Close() error {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	for i, open := range n.tree.notices {
		if open == n {
			n.tree.notices = append(n.tree.notices[:i:i], n.tree.notices[i+1:]...)
			break
		}
	}
	n.fail(errors.New("closed"))
	return nil
}

func (n *notices) post(notice cgroup.Notice) {
	n.mu.Lock()
	n.queue = append(n.queue, notice)
	n.mu.Unlock()
	n.signal()
}

func (n *notices) fail(err error) {
	n.mu.Lock()
	n.err = err
	n.changed.Broadcast()
	n.mu.Unlock()
	n.signal()
}

func (n *notices) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
