package kernelstate

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// SetRecord replaces the record of a cgroup by the values of the runtime and systemd in record.
func (t *Cache) SetRecord(p cgroup.Path, record cgroup.Current) {
	if c, ok := t.current[p]; ok {
		c.Recorded, c.RecordedMems, c.RecordedKnown, c.Unit = record.Recorded, record.RecordedMems, record.RecordedKnown, record.Unit
		t.current[p] = c
	}
	t.stale[p] = true
}

// SetUnit replaces the properties that systemd holds for a cgroup.
func (t *Cache) SetUnit(p cgroup.Path, unit cgroup.UnitState) {
	if c, ok := t.current[p]; ok {
		c.Unit = unit
		t.current[p] = c
	}
}

// ConfirmRecord compares the record of a cgroup with that read after an external write. The
// CPUs in record count if known is true. Unless systemd and the runtime hold the CPUs that
// were recorded before, the record is unknown from now on.
func (t *Cache) ConfirmRecord(p cgroup.Path, record cpuset.Set, known bool, unit cgroup.UnitState) {
	c, ok := t.current[p]
	if !ok || t.Writes.IsBusy(p) {
		return
	}
	c.Unit = unit
	if known && unit.Known {
		c.RecordedKnown = record.Equal(c.Recorded) && unit.CPUs.Equal(record)
	}
	t.current[p] = c
}

// NoteOriginals notes the values that the writes replace, before the first write.
func (t *Cache) NoteOriginals(originals *undo.Originals, m *inventory.Objects, writes []cgroup.Write) {
	for _, w := range writes {
		before := t.Current(w.Path.Scope())
		if name := m.Units().At(w.Path); name != "" {
			originals.NoteUnitWrite(w, m.Units().NameOf(name), before.Unit)
			continue
		}
		if e := m.ContainerAt(w.Path); e != nil {
			w.Container = e.Container.ID // restore must also change the runtime's record
		}
		originals.NoteWrite(w, before)
	}
}
