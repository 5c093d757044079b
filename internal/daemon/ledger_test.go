package daemon

import (
	"testing"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// TestOriginalOfAUnit: it is the unit's and not its cgroup's. In another slice the
// unit has what we gave it.
func TestOriginalOfAUnit(t *testing.T) {
	was := Original{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service"}
	moved := was
	moved.Path, moved.Value = "radio.slice/du.service", "4-5"
	for name, l := range map[string]*ledger{
		"noted":        newLedger(Journal{}),
		"journal":      newLedger(Journal{Originals: []Original{was, moved}}),
		"other order":  newLedger(Journal{Originals: []Original{moved, was}}),
		"one and note": newLedger(Journal{Originals: []Original{was}}),
	} {
		l.note(was)
		l.note(moved)
		if got := properties(l.units()["du.service"]); len(got) != 1 || got[0] != (cgroup.Property{Name: cgroup.UnitCPUs}) {
			t.Errorf("%s: %v; want that it had none", name, got)
		}
	}
}
