package kernelstate

import (
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// ownWrites holds the own writes to a cgroup since it was read.
//
// The daemon knows the exact value that it writes to a file. A record is written by the
// runtime and systemd, which write their other values to the cgroup with it. The daemon
// knows their cpusets. It does not know their weights, quotas and memory nodes, which the
// OCI runtime converts. During such a write the cache finds only external writes of a
// cpuset. Other external writes are repaired after it, and are not reported.
type ownWrites struct {
	persisted  bool         // the runtime or systemd writes
	cpus       []cpuset.Set // that they may write
	incomplete bool         // cpus are not all
}

func (t *Cache) ownWrites(p cgroup.Path) *ownWrites {
	o := t.own[p]
	if o == nil {
		o = &ownWrites{}
		t.own[p] = o
	}
	return o
}

// NoteWrite records an own write to a file of a cgroup, also one that failed with err.
func (t *Cache) NoteWrite(w cgroup.Write, err error) {
	p := w.Path.Scope()
	t.stale[p] = true
	if w.Property == cgroup.FileCPUs {
		t.invalidateBelow(p)
	}
	t.ownWrites(p)
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

// IsBusy reports whether a write to the record of p is in progress.
func (t *Cache) IsBusy(p cgroup.Path) bool { return t.pending[p] > 0 }

// HasBusy reports whether a write to any record is in progress.
func (t *Cache) HasBusy() bool { return len(t.pending) > 0 }

// NoteSubmitted records that a worker or a reply to the runtime makes a write to a record.
// Until NoteFinished or NoteMissingUpdate the cgroup may get its value at any time.
func (t *Cache) NoteSubmitted(w cgroup.Write) {
	c, o := t.current[w.Path], t.ownWrites(w.Path)
	o.persisted = true
	if cpus, ok := PersistedCPUs(w); ok {
		o.cpus = append(o.cpus, cpus)
		c.Pending = cpus
	} else { // the runtime or systemd also writes the recorded CPUs
		o.incomplete = o.incomplete || !c.RecordedKnown
		o.cpus = append(o.cpus, c.Recorded, c.Unit.CPUs, cpuset.Set{})
	}
	t.current[w.Path] = c
	t.pending[w.Path]++
}

// NoteFinished records the result of a submitted write, with systemd's properties after it.
func (t *Cache) NoteFinished(w cgroup.Write, unit cgroup.UnitState, err error) {
	overridden := t.overridden[w.Path]
	t.EndRevert(w.Path)
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
	t.EndRevert(p)
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

// NoteOverride records that an NRI reply gives an update other CPUs than it requested. If
// the update is an own one, the record differs from it afterwards.
func (t *Cache) NoteOverride(p cgroup.Path) {
	if t.IsBusy(p) {
		t.overridden[p] = true
		t.ownWrites(p).incomplete = true
	}
}

// BeginRevert records that a worker starts to restore values of a unit.
func (t *Cache) BeginRevert(p cgroup.Path) {
	o := t.ownWrites(p)
	o.persisted, o.incomplete = true, true
	t.pending[p]++
}

// EndRevert records the end of the work that BeginRevert records.
func (t *Cache) EndRevert(p cgroup.Path) {
	if t.pending[p]--; t.pending[p] == 0 {
		delete(t.pending, p)
		delete(t.overridden, p)
	}
}

// PersistedCPUs returns the CPUs that a write records with the runtime or systemd.
func PersistedCPUs(w cgroup.Write) (cpuset.Set, bool) {
	if w.Property != cgroup.CRICPUs && w.Property != cgroup.UnitCPUs {
		return cpuset.Set{}, false
	}
	cpus, err := cpuset.Parse(w.Value)
	return cpus, err == nil
}
