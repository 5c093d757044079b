package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestOriginalOfAUnit checks that an original belongs to the unit and not to its cgroup. In
// another slice the unit has the daemon's value.
func TestOriginalOfAUnit(t *testing.T) {
	was := undo.Original{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service"}
	moved := was
	moved.Path, moved.Value = "radio.slice/du.service", "4-5"
	for name, l := range map[string]*undo.Journal{
		"noted":        undo.New(undo.Document{}),
		"journal":      undo.New(undo.Document{Originals: []undo.Original{was, moved}}),
		"other order":  undo.New(undo.Document{Originals: []undo.Original{moved, was}}),
		"one and note": undo.New(undo.Document{Originals: []undo.Original{was}}),
	} {
		l.Note(was)
		l.Note(moved)
		if got := undo.Properties(l.UnitOriginals()["du.service"]); len(got) != 1 || got[0] != (cgroup.Property{Name: cgroup.UnitCPUs}) {
			t.Errorf("%s: %v; want that it had none", name, got)
		}
	}
}
