package testnode

import (
	"errors"
	"slices"
	"sync"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// fakeInotify is the fake of an inotify instance.
type fakeInotify struct {
	tree *Cgroups
	wake chan struct{} // holds one token while queue or err is not empty

	// The tree's lock guards the watches. They are on directories, not on names.
	dirs map[*cgroupNode]string
	// byName holds the latest directory of each name.
	byName map[string]*cgroupNode

	mu      sync.Mutex // guards the fields below; taken after the tree's lock
	queue   []cgroup.Notice
	err     error
	waits   bool       // the reader has taken all notices and waits for the next one
	changed *sync.Cond // signals changes of waits and err
}

// Notify implements cgroup.Notifier.
func (c *Cgroups) Notify() (cgroup.Notices, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwatched != nil {
		return nil, c.unwatched
	}
	n := &fakeInotify{tree: c, wake: make(chan struct{}, 1), dirs: make(map[*cgroupNode]string), byName: make(map[string]*cgroupNode)}
	n.changed = sync.NewCond(&n.mu)
	c.notices = append(c.notices, n)
	return n, nil
}

// AwaitReaders returns when all readers have taken all queued notices.
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

// Watches returns the number of watches in the kernel, including those on removed cgroups.
func (c *Cgroups) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	for _, n := range c.notices {
		count += len(n.dirs)
	}
	return count
}

// LoseNotices loses the notices of changes in f, like a full queue in the kernel. The readers
// receive an overflow instead.
func (c *Cgroups) LoseNotices(f func()) {
	c.mu.Lock()
	notices := c.notices
	c.notices = nil
	c.mu.Unlock()
	f()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notices = notices
	for _, n := range c.notices {
		n.post(cgroup.Notice{Kind: cgroup.Overflow})
	}
}

// FailNotices ends all readers with err, and refuses new ones until it is called with nil.
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

// notifyWatchers posts a notice to the watchers of node. The caller holds the tree's lock.
func (c *Cgroups) notifyWatchers(node *cgroupNode, kind cgroup.ChangeKind, name string) {
	for _, n := range c.notices {
		if dir, ok := n.dirs[node]; ok {
			n.post(cgroup.Notice{Kind: kind, Dir: dir, Name: name})
		}
	}
}

// unwatch handles the removal of a cgroup. The caller holds the tree's lock.
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

func (n *fakeInotify) Add(dir string) error {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	node, err := n.tree.find("watch", dir)
	if err != nil {
		return err
	}
	n.dirs[node], n.byName[dir] = dir, node
	return nil
}

func (n *fakeInotify) Remove(dir string) {
	n.tree.mu.Lock()
	defer n.tree.mu.Unlock()
	delete(n.dirs, n.byName[dir])
	delete(n.byName, dir)
}

func (n *fakeInotify) Next() (cgroup.Notice, error) {
	for {
		if notice, ok, err := n.first(); ok || err != nil {
			return notice, err
		}
		<-n.wake
	}
}

func (n *fakeInotify) first() (notice cgroup.Notice, ok bool, err error) {
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

func (n *fakeInotify) Close() error {
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

func (n *fakeInotify) post(notice cgroup.Notice) {
	n.mu.Lock()
	n.queue = append(n.queue, notice)
	n.mu.Unlock()
	n.signal()
}

func (n *fakeInotify) fail(err error) {
	n.mu.Lock()
	n.err = err
	n.changed.Broadcast()
	n.mu.Unlock()
	n.signal()
}

func (n *fakeInotify) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}
