// Package notices handles the kernel's notices about cgroups that are written, appear or disappear.
// It also holds the cgroups that no target or no container accounts for. One goroutine uses a
// [Notices].
package notices

import (
	"log/slog"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/auxiliary"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/drift"
	"github.com/cpupoold/cpupoold/internal/node/exposure"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/partition"
	"github.com/cpupoold/cpupoold/internal/node/treewatch"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// Sources are the values that a [Notices] reads and informs.
type Sources struct {
	Host       *hostenv.Host
	Log        *slog.Logger
	Objects    *inventory.Objects
	Cache      *kernelstate.Cache
	Originals  *undo.Originals
	Auxiliary  *auxiliary.Cgroups
	Others     *desired.OtherManagers
	Partitions *partition.Partitions
	Drifts     *drift.Tracker
	Exposures  *exposure.Meter
	Tree       *treewatch.Tree
}

// Notices handles notices.
type Notices struct {
	Sources
	Unidentified Unidentified
	Removed      Removed
}

// New returns a Notices that has seen no cgroups.
func New(s Sources) *Notices {
	return &Notices{s, Unidentified{s, make(map[cgroup.Path]found)}, Removed{s, make(map[cgroup.Path]string), make(map[cgroup.Path]bool)}}
}

// Result is the work that follows from notices. A notice of an own write needs none.
type Result struct {
	Gone     []cgroup.Path // Removed cgroups, also if they exist again.
	One, All bool          // A pass over one pod or cgroup, or over all.
	Repairs  []cgroup.Path // Cgroups to read and to repair.
	Unknown  []string      // IDs of unidentified containers or sandboxes.
	Lost     bool          // Notices are lost: list again.
}

// Watch updates the watched cgroups.
func (n *Notices) Watch(targets []cgroup.Target) {
	var parking []cgroup.Path
	if !n.Partitions.Parked().IsEmpty() {
		parking = []cgroup.Path{cgroup.Parking, cgroup.ParkingTop}
	}
	n.Tree.Update(targets, n.Objects, n.Partitions.Enabled(), parking...)
}

// Take handles the notices of the watcher. period is the time between resyncs.
func (n *Notices) Take(targets []cgroup.Target, period time.Duration) Result {
	watcher := n.Tree.Watcher()
	if watcher == nil {
		return Result{}
	}
	changes, err := watcher.Take(period)
	r := n.Handle(changes, targets)
	r.All = r.All || err != nil
	if !watcher.Settled() {
		r.One = true // the pass sets the missing watches
	}
	return r
}

// Handle handles changes of cgroups.
func (n *Notices) Handle(changes []cgroup.Change, targets []cgroup.Target) (r Result) {
	for _, c := range changes {
		p := c.Path.Join(c.Name)
		switch c.Kind {
		case cgroup.Overflow:
			n.Log.Warn("notices about cgroups are lost; reading all of them again")
			n.Cache.InvalidateAll()
			n.Partitions.RecheckAll()
			n.Tree.ForgetPods()
			r.Lost, r.All = true, true
		case cgroup.Flooded:
			r.All = true // reports the problem
		case cgroup.Written:
			breaks := n.Partitions.NoteWrite(c.Path, c.Name) // before the repair: a list may have shrunk a partition
			if n.written(c.Path.Scope(), c.At) {
				r.Repairs = append(r.Repairs, c.Path.Scope())
			}
			if breaks || n.Others.NoteWrite(c.Path) {
				r.All = true
			}
		case cgroup.Appeared:
			if p.ContainerID(n.Host.Driver) != "" {
				n.Exposures.Appeared(p, c.At)
			} else {
				r.Gone = append(r.Gone, p) // a unit that starts again: the notice replaces the notice of the end
			}
			n.Partitions.Memory.Appeared(p)
			n.child(p, true, targets, &r)
		case cgroup.Gone:
			n.Exposures.Gone(p)
			r.Gone = append(r.Gone, p)
			n.Partitions.Memory.Gone(p)
			n.Removed.Notice(p)
			n.child(p, false, targets, &r)
		}
	}
	return r
}

// written compares a cgroup with its last reading after a notice of a write. It reports whether
// the cgroup must be read and repaired.
func (n *Notices) written(p cgroup.Path, at time.Time) bool {
	c := n.Cache.Current(p)
	if !n.Cache.Has(p) || n.Cache.IsStale(p) {
		// The next pass reads the cgroup if it is a target.
		n.Partitions.RecheckNear(p)
		return c.Exists && !n.Cache.Writes.IsBusy(p)
	}
	if !c.Exists && n.Objects.ContainerAt(p).IsBeingMade() {
		return false
	}
	if c.Exists {
		if st, err := n.Cache.State(p); err == nil {
			if expected, moved := n.Cache.NoteReading(st); expected {
				return n.Partitions.NoteState(p, st.Partition) || moved
			}
		}
	}
	n.Drifts.Notice(p, at)
	n.Cache.Invalidate(p)
	n.Partitions.Recheck(p) // the cpuset of a sibling can break a partition
	return true
}

// child handles a cgroup that has appeared (there) or disappeared. A known cgroup is only read
// again, because the runtime reports its container.
func (n *Notices) child(p cgroup.Path, there bool, targets []cgroup.Target, r *Result) {
	if auxiliary.IsPod(p) && n.Tree.NotePod(p, there) {
		n.Watch(targets)
	}
	known, isNew := p.Scope(), n.Auxiliary.Note(p, there)
	if n.Cache.Has(known) || n.Removed.IsMissing(known) {
		n.Cache.Invalidate(known)
		if !there || n.Objects.ContainerAt(known).IsBeingMade() {
			r.One = true // it is gone, or no process runs in it before the runtime asks
		} else {
			r.All = true
		}
		return
	}
	if !there {
		n.Unidentified.Forget(p)
		r.All = n.Partitions.Unblocks(p) || r.All
		return
	}
	id := n.Unidentified.Track(p)
	if id != "" {
		r.Unknown = append(r.Unknown, id)
	}
	r.All = r.All || id != "" || isNew
}
