package kernelstate

import (
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// ownWrites is what the daemon, and who works for it, has written to a cgroup since it was
// last read. What else is found there somebody else has written.
//
// What the daemon writes to a file is known to the digit. A seal is made by the runtime
// and systemd, which write all that they have on record with it: cpusets that the
// daemon knows, but weights, quotas and memory nodes as the OCI runtime converts them.
// Of what somebody else writes meanwhile only a cpuset can be told; the rest is
// repaired when the seal has ended, and nobody knows that it was there.
type ownWrites struct {
	persisted  bool
	cpus       []cpuset.Set // that the seals may have written
	incomplete bool         // these are not all
}

// Since returns the deed of a cgroup, and begins it.
func (t *Cache) Since(p cgroup.Path) *ownWrites {
	d := t.OwnWrites[p]
	if d == nil {
		d = &ownWrites{}
		t.OwnWrites[p] = d
	}
	return d
}

// Wrote notes a write of the daemon's own to a file of a cgroup, or that it was tried.
func (t *Cache) Wrote(w cgroup.Write, err error) {
	p := w.Path.Scope()
	t.Stale[p] = true
	if w.Property == cgroup.FileCPUs {
		t.invalidateBelow(p)
	}
	t.Since(p)
	c, known := t.Current[p]
	if !known || err != nil {
		return
	}
	switch {
	case w.Path == p:
		c.State = After(c.State, w)
	case c.Inner != nil && c.Inner.Path == w.Path:
		inner := After(*c.Inner, w)
		c.Inner = &inner
	}
	t.Current[p] = c
}

// After is what a cgroup has been asked for after a write to one of its files.
func After(st cgroup.State, w cgroup.Write) cgroup.State {
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

// persists notes that somebody is about to make a seal. One of something else than CPUs
// brings those that are on record back.
func (d *ownWrites) persists(w cgroup.Write, c cgroup.Current) {
	d.persisted = true
	if cpus, ok := PersistedValue(w); ok {
		d.cpus = append(d.cpus, cpus)
		return
	}
	d.incomplete = d.incomplete || !c.RecordedKnown
	d.cpus = append(d.cpus, c.Recorded, c.Unit.CPUs, cpuset.Set{})
}

// foreign compares what a cgroup was with what it is. It says whether somebody else has
// written, and returns what was before that: of other things than CPUs what is, where
// the deed can be the reason.
func (d *ownWrites) foreign(c cgroup.Current, st cgroup.State) (before cgroup.Current, is bool) {
	if d == nil || !d.persisted {
		return c, !SameRequests(c.State, st)
	}
	if d.incomplete {
		return c, false
	}
	before = c
	before.State, is = d.unlike(c.State, st)
	if c.Inner != nil && st.Inner != nil {
		inner, differs := d.unlike(*c.Inner, *st.Inner)
		before.Inner, is = &inner, is || differs
	}
	return before, is
}

// unlike returns st with the CPUs of was, if no seal can have changed them.
func (d *ownWrites) unlike(was, st cgroup.State) (cgroup.State, bool) {
	if st.CPUs.Equal(was.CPUs) || slices.ContainsFunc(d.cpus, st.CPUs.Equal) {
		return st, false
	}
	st.CPUs = was.CPUs
	return st, true
}
