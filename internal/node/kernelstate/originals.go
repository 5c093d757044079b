package kernelstate

import (
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// NoteOriginals notes the values that the writes replace, before the first write.
func (t *Cache) NoteOriginals(j *undo.Journal, m *inventory.Inventory, writes []cgroup.Write) {
	for _, w := range writes {
		before := t.Current(w.Path.Scope())
		if name := m.UnitAt(w.Path); name != "" {
			j.NoteUnitWrite(w, m.UnitName(name), before.Unit)
			continue
		}
		if e := m.ContainerAt(w.Path); e != nil {
			w.Container = e.Container.ID // restore must also change the runtime's record
		}
		j.NoteWrite(w, before)
	}
}
