package notices

import (
	"errors"
	"maps"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Removed holds removed cgroups: the cgroups whose end the runtime has not reported, and the cgroups
// whose originals the journal can drop.
type Removed struct {
	Sources
	// missing holds cgroups that do not exist although the runtime has not reported their end.
	// The value is the container or sandbox that is being fetched.
	missing map[cgroup.Path]string
	noticed map[cgroup.Path]bool // the watcher has reported their removal
}

// Notice records a removal that the watcher has reported.
func (r *Removed) Notice(p cgroup.Path) { r.noticed[p] = true }

// NoteMissing records that the cgroup of a container or pod does not exist. It returns the
// container, or else the sandbox, that the daemon must fetch from the runtime.
func (r *Removed) NoteMissing(p cgroup.Path) (container, sandbox string) {
	if r.IsMissing(p) {
		return "", ""
	}
	r.Cache.Forget(p)
	if e := r.Objects.ContainerAt(p); e != nil {
		container = e.Container.ID
		r.missing[p] = container
	} else if pod := r.Objects.PodAt(p); pod != nil {
		sandbox = pod.Pod.ID
		r.missing[p] = sandbox
	}
	return container, sandbox
}

// IsMissing reports whether a cgroup does not exist although the runtime has not reported its end.
func (r *Removed) IsMissing(p cgroup.Path) bool { return r.missing[p] != "" }

// Fetched allows writes to the existing cgroups of an object again. The other cgroups wait for
// the next listing: a runtime with virtual machines has containers without a cgroup here.
func (r *Removed) Fetched(id string) {
	maps.DeleteFunc(r.missing, func(p cgroup.Path, owner string) bool {
		if owner != id {
			return false
		}
		_, err := r.Cache.State(p)
		return err == nil
	})
}

// Listed allows writes to all cgroups again, after a listing.
func (r *Removed) Listed() { clear(r.missing) }

// DropOriginals drops the originals of removed cgroups from the journal. The next save omits
// them; they need no save of their own, because restore skips cgroups that do not exist. The
// first write to a new cgroup of the same name records new originals. A later pass, at the
// latest the resync, drops the originals of cgroups that may still exist or whose partition is
// still in the journal.
func (r *Removed) DropOriginals() {
	if len(r.noticed) == 0 {
		return
	}
	is, gone := r.check(), make(map[cgroup.Path]bool)
	maps.DeleteFunc(r.noticed, func(p cgroup.Path, _ bool) bool {
		if is(p) {
			gone[p] = true
		}
		return gone[p]
	})
	if len(gone) > 0 {
		r.Originals.Drop(func(p cgroup.Path) bool { return gone[p.Scope()] })
	}
}

// Prune drops the originals of all removed cgroups from the journal. It returns a function that
// reports whether a cgroup is removed for good.
func (r *Removed) Prune() (gone func(cgroup.Path) bool) {
	gone = r.check()
	clear(r.noticed)
	r.Originals.Forget(gone)
	return gone
}

// check returns a function that reports whether a cgroup is removed for good. The function
// reads the kernel, because a listing of the runtime can be older than a cgroup.
func (r *Removed) check() func(cgroup.Path) bool {
	expected := make(map[cgroup.Path]bool) // few at a time
	for e := range r.Objects.Containers() {
		if e.Container.State == cri.Created {
			expected[e.Path] = true // it has no cgroup yet
		}
	}
	return func(p cgroup.Path) bool {
		if r.Cache.Has(p) || expected[p] || r.Partitions.Untrimmed(p) { // true for nearly all
			return false
		}
		_, err := r.Cache.State(p)
		return errors.Is(err, cgroup.ErrGone)
	}
}
