package nodefixture

import (
	"context"
	"sync"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// CPUs is a source of CPU hotplug events, and of the topology after them.
type CPUs struct {
	mu      sync.Mutex // guards all fields
	top     *topology.Topology
	deaf    bool          // events are lost
	err     error         // ends Watch
	changed chan struct{} // closed and replaced with each event

	listening int // running calls of Watch
	events    int // number of events
	reported  int // number of the last event that Watch has reported
}

// newCPUs returns a source with the CPUs of a topology.
func newCPUs(top *topology.Topology) *CPUs {
	return &CPUs{top: top, changed: make(chan struct{})}
}

// Now returns the present topology.
func (c *CPUs) Now() *topology.Topology {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.top
}

// Watch calls changed at first and after each event, until the context ends.
func (c *CPUs) Watch(ctx context.Context, changed func() error) error {
	c.listens(1)
	defer c.listens(-1)
	for {
		c.mu.Lock()
		next, err, events := c.changed, c.err, c.events
		c.mu.Unlock()
		if err == nil {
			err = changed()
		}
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.reported = events
		c.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
	}
}

func (c *CPUs) listens(more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listening += more
}

// isReported reports whether Watch has reported the last event. A daemon handles that event
// before all later ones.
func (c *CPUs) isReported() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listening == 0 || c.reported == c.events
}

// Read returns the present topology.
func (c *CPUs) Read(*topology.Topology) (*topology.Topology, error) { return c.Now(), nil }

// Fail makes Watch fail with err, or succeed again for nil.
func (c *CPUs) Fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	c.event()
}

// event wakes Watch.
func (c *CPUs) event() {
	c.events++
	close(c.changed)
	c.changed = make(chan struct{})
}

// LoseEvents makes the source lose all later events.
func (c *CPUs) LoseEvents() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deaf = true
}

// Set changes the topology and reports that as an event.
func (c *CPUs) Set(top *topology.Topology) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.top = top; !c.deaf {
		c.event()
	}
}

// SetOnline makes cpus the online CPUs. As in the kernel, cpusets change before the event.
// SetOnline returns after Watch has reported it.
func (n *Node) SetOnline(cpus cpuset.Set) {
	n.T.Helper()
	top, err := topology.Read(withOnline(Sysfs(n.Topology.Possible.Len()), cpus))
	if err != nil {
		n.T.Fatal(err)
	}
	n.Tree.SetOnline(cpus)
	n.CPUs.Set(top)
	n.Eventually("CPU event reported", n.CPUs.isReported)
}

// AllCPUsBut returns the CPUs of a node of eight except some.
func AllCPUsBut(cpus ...int) cpuset.Set {
	return cpuset.Range(0, defaultCPUs-1).Difference(cpuset.Of(cpus...))
}
