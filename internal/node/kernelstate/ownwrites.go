package kernelstate

import (
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// OwnWrites holds the daemon's own writes: those in progress, and those since a cgroup was read.
type OwnWrites struct {
	pending    map[cgroup.Path]int      // number of writes in progress
	since      map[cgroup.Path]*written // since a cgroup was read
	overridden map[cgroup.Path]bool     // cgroups with a write in progress that NRI has changed
}

// written holds the own writes to a cgroup since it was read.
//
// The daemon knows the exact value that it writes to a file. A record is written by the
// runtime and systemd, which write their other values to the cgroup with it. The daemon
// knows their cpusets. It does not know their weights, quotas and memory nodes, which the
// OCI runtime converts. During such a write the cache finds only external writes of a
// cpuset. Other external writes are repaired after it, and are not reported.
type written struct {
	persisted  bool         // the runtime or systemd writes
	cpus       []cpuset.Set // that they may write
	incomplete bool         // cpus are not all
}

// of returns the own writes to a cgroup, for a change.
func (o *OwnWrites) of(p cgroup.Path) *written {
	w := o.since[p]
	if w == nil {
		w = &written{}
		o.since[p] = w
	}
	return w
}

// IsBusy reports whether a write to the record of p is in progress.
func (o *OwnWrites) IsBusy(p cgroup.Path) bool { return o.pending[p] > 0 }

// HasBusy reports whether a write to any record is in progress.
func (o *OwnWrites) HasBusy() bool { return len(o.pending) > 0 }

// NoteOverride records that an NRI reply gives an update other CPUs than it requested. If
// the update is an own one, the record differs from it afterwards.
func (o *OwnWrites) NoteOverride(p cgroup.Path) {
	if o.IsBusy(p) {
		o.overridden[p] = true
		o.of(p).incomplete = true
	}
}

// BeginRevert records that a worker starts to restore values of a unit.
func (o *OwnWrites) BeginRevert(p cgroup.Path) {
	w := o.of(p)
	w.persisted, w.incomplete = true, true
	o.pending[p]++
}

// EndRevert records the end of the work that BeginRevert records.
func (o *OwnWrites) EndRevert(p cgroup.Path) {
	if o.pending[p]--; o.pending[p] == 0 {
		delete(o.pending, p)
		delete(o.overridden, p)
	}
}

// NoteWrite records an own write to a file of a cgroup, also one that failed with err.
func (t *Cache) NoteWrite(w cgroup.Write, err error) {
	p := w.Path.Scope()
	t.stale[p] = true
	if w.Property == cgroup.FileCPUs {
		t.invalidateBelow(p)
	}
	t.Writes.of(p)
	c, known := t.current[p]
	if !known || err != nil {
		return
	}
	switch {
	case w.Path == p:
		c.State = after(c.State, w)
	case c.Inner != nil && c.Inner.Path == w.Path:
		inner := after(*c.Inner, w)
		c.Inner = &inner
	}
	t.current[p] = c
}

func after(st cgroup.State, w cgroup.Write) cgroup.State {
	switch w.Property {
	case cgroup.FileCPUs:
		if cpus, err := cpuset.Parse(w.Value); err == nil {
			st.CPUs = cpus
		}
	case cgroup.FilePartition:
		st.Partition = cgroup.PartitionState{Type: cgroup.PartitionType(w.Value)}
	case cgroup.FileWeight:
		if weight, err := strconv.ParseUint(w.Value, 10, 64); err == nil {
			st.Weight = weight
		}
	case cgroup.FileMax:
		quota, period, both := strings.Cut(w.Value, " ")
		if n, err := strconv.ParseInt(quota, 10, 64); err == nil {
			st.Quota = n
		} else if quota == cgroup.ValueMax {
			st.Quota = -1
		}
		if n, err := strconv.ParseInt(period, 10, 64); both && err == nil {
			st.Period = n
		}
	}
	return st
}

// NoteSubmitted records that a worker or a reply to the runtime makes a write to a record.
// Until NoteFinished or NoteMissingUpdate the cgroup may get its value at any time.
func (t *Cache) NoteSubmitted(w cgroup.Write) {
	c, o := t.current[w.Path], t.Writes.of(w.Path)
	o.persisted = true
	if cpus, ok := PersistedCPUs(w); ok {
		o.cpus = append(o.cpus, cpus)
		c.Pending = cpus
	} else { // the runtime or systemd also writes the recorded CPUs
		o.incomplete = o.incomplete || !c.RecordedKnown
		o.cpus = append(o.cpus, c.Recorded, c.Unit.CPUs, cpuset.Set{})
	}
	t.current[w.Path] = c
	t.Writes.pending[w.Path]++
}

// NoteFinished records the result of a submitted write, with systemd's properties after it.
func (t *Cache) NoteFinished(w cgroup.Write, unit cgroup.UnitState, err error) {
	overridden := t.Writes.overridden[w.Path]
	t.Writes.EndRevert(w.Path)
	c, known := t.current[w.Path]
	if !known {
		return
	}
	if cpus, ok := PersistedCPUs(w); ok {
		if c.Pending.Equal(cpus) {
			c.Pending = cpuset.Set{}
		}
		if err == nil {
			c.Recorded, c.RecordedKnown = cpus, !overridden
			t.invalidateBelow(w.Path)
		}
	}
	if w.Property == cgroup.CRIMems && err == nil {
		if nodes, err := cpuset.Parse(w.Value); err == nil {
			c.RecordedMems = nodes
		}
	}
	c.Unit = unit // an update over CRI also writes properties of the unit
	t.current[w.Path] = c
	t.Invalidate(w.Path)
}

// NoteMissingUpdate ends a submitted write without a result. The record becomes unknown.
func (t *Cache) NoteMissingUpdate(p cgroup.Path, cpus cpuset.Set) {
	t.Writes.EndRevert(p)
	c, known := t.current[p]
	if !known {
		return
	}
	if c.Pending.Equal(cpus) {
		c.Pending = cpuset.Set{}
	}
	c.RecordedKnown = false
	t.current[p] = c
	t.Invalidate(p)
}

// PersistedCPUs returns the CPUs that a write records with the runtime or systemd.
func PersistedCPUs(w cgroup.Write) (cpuset.Set, bool) {
	if w.Property != cgroup.CRICPUs && w.Property != cgroup.UnitCPUs {
		return cpuset.Set{}, false
	}
	cpus, err := cpuset.Parse(w.Value)
	return cpus, err == nil
}
