//go:build guest

package placement_test

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/test/vm/internal/guestnode"
	"github.com/cpupoold/cpupoold/test/vm/internal/manifest"
)

// node is the guest as the tests use it.
type node struct {
	*guestnode.Node

	machine
}

func newNode(t *testing.T) *node {
	t.Helper()
	return &node{Node: guestnode.New(t), machine: readMachine(t)}
}

// apply has the kubelet run static pods, and waits until their containers run.
func (n *node) apply(pods ...manifest.Pod) {
	n.Helper()
	n.reserve(pods...)
	for _, p := range pods {
		for _, c := range p.Containers {
			n.Eventually("start of "+p.Name+"/"+c.Name, func() error { _, err := n.find(p.Name, c.Name); return err })
		}
	}
}

// reserve waits for their sandboxes only. Each is there, and the daemon has reserved CPUs for it, before the next: they are given out in
// this order.
func (n *node) reserve(pods ...manifest.Pod) {
	n.Helper()
	for _, p := range pods {
		n.Apply(p)
		n.Eventually("sandbox of "+p.Name, func() error { return n.Ready(p.Name) })
	}
}

// find returns the cgroup of a running container.
func (n *node) find(pod, name string) (cgroup.Path, error) {
	c, err := n.Find(pod, name)
	return c.Path, err
}

// gone reports whether a cgroup has ended during a read.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
