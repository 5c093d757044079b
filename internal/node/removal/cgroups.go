// Package removal follows removed cgroups: the cgroups whose end the runtime has not reported, and
// the cgroups whose originals the journal can drop.
package removal

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Sources are the values that a [Cgroups] reads. It drops cgroups from cache and journal.
type Sources struct {
	Inventory  *inventory.Inventory
	Cache      *kernelstate.Cache
	Partitions *partition.Partitions
	Journal    *undo.Journal
}

// Cgroups holds removed cgroups.
type Cgroups struct {
	Sources
	// missing holds cgroups that do not exist although the runtime has not reported their end.
	// The value is the container or sandbox that is being fetched.
	missing map[cgroup.Path]string
	noticed map[cgroup.Path]bool // the watcher has reported their removal
}

// New returns a Cgroups without entries.
func New(s Sources) *Cgroups {
	return &Cgroups{s, make(map[cgroup.Path]string), make(map[cgroup.Path]bool)}
}

// Notice records a removal that the watcher has reported.
func (c *Cgroups) Notice(p cgroup.Path) { c.noticed[p] = true }

// NoteMissing records that the cgroup of a container or pod does not exist. It returns the
// container, or else the sandbox, that the daemon must fetch from the runtime.
func (c *Cgroups) NoteMissing(p cgroup.Path) (container, sandbox string) {
	if c.IsMissing(p) {
		return "", ""
	}
	c.Cache.Forget(p)
	if e := c.Inventory.ContainerAt(p); e != nil {
		container = e.Container.ID
		c.missing[p] = container
	} else if pod := c.Inventory.PodAt(p); pod != nil {
		sandbox = pod.Pod.ID
		c.missing[p] = sandbox
	}
	return container, sandbox
}

// IsMissing reports whether a cgroup does not exist although the runtime has not reported its end.
func (c *Cgroups) IsMissing(p cgroup.Path) bool { return c.missing[p] != "" }

// Fetched allows writes to the existing cgroups of an object again. The other cgroups wait for
// the next listing: a runtime with virtual machines has containers without a cgroup here.
func (c *Cgroups) Fetched(id string) {
	maps.DeleteFunc(c.missing, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := c.Cache.State(p)
		return err == nil
	})
}

// Listed allows writes to all cgroups again, after a listing.
func (c *Cgroups) Listed() { clear(c.missing) }

// DropOriginals drops the originals of removed cgroups from the journal. The next save omits
// them; they need no save of their own, because restore skips cgroups that do not exist. The
// first write to a new cgroup of the same name records new originals. A later pass, at the
// latest the resync, drops the originals of cgroups that may still exist or whose partition is
// still in the journal.
func (c *Cgroups) DropOriginals() {
	if len(c.noticed) == 0 {
		return
	}
	is, gone := c.check(), make(map[cgroup.Path]bool)
	maps.DeleteFunc(c.noticed, func(p cgroup.Path, _ bool) bool {
		if is(p) {
			gone[p] = true
		}
		return gone[p]
	})
	if len(gone) > 0 {
		c.Journal.DropOriginals(func(p cgroup.Path) bool { return gone[p.Scope()] })
	}
}

// Prune drops the originals of all removed cgroups from the journal. It returns a function that
// reports whether a cgroup is removed for good.
func (c *Cgroups) Prune() (gone func(cgroup.Path) bool) {
	gone = c.check()
	clear(c.noticed)
	c.Journal.Forget(gone)
	return gone
}

// check returns a function that reports whether a cgroup is removed for good. The function
// reads the kernel, because a listing of the runtime can be older than a cgroup.
func (c *Cgroups) check() func(cgroup.Path) bool {
	expected := make(map[cgroup.Path]bool) // few at a time
	for e := range c.Inventory.Containers() {
		if e.Container.State == cri.Created {
			expected[e.Path] = true // it has no cgroup yet
		}
	}
	return func(p cgroup.Path) bool {
		if c.Cache.Has(p) || expected[p] || c.Partitions.Untrimmed(p) { // true for nearly all
			return false
		}
		_, err := c.Cache.State(p)
		return errors.Is(err, cgroup.ErrGone)
	}
}
