package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestInnerUnitWins checks that a slice around another configured unit is not confined, and
// gets back its former value when the inner unit is configured.
func TestInnerUnitWins(t *testing.T) {
	const outer = "system.slice: {pool: management}"
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Set{})
	n.Units.Install("telegraf.service", cpuset.Set{})
	n.StartUnit("telegraf.service")
	n.YAML = nodefixture.PoolsYAML + "units: {" + outer + "}\n"
	r := n.start()
	n.Eventually("slice bound", func() bool { return n.UnitProperty("system.slice") == "0-1" })
	n.YAML = nodefixture.PoolsYAML + "units: {" + outer + ", du.service: {cpus: 2}}\n"
	r.loop.reload()
	n.StartUnit("du.service")
	n.AwaitUnitCPUs("du.service", "4-5")
	n.Eventually("slice reverted", func() bool { return n.UnitProperty("system.slice") == "" })
	r.view("problem", func(v *telemetry.View) bool { return v.Problems["UnitEncloses"] == 1 })
	r.quiet()
}

// duOriginal returns the original that is in the journal while du.service has CPUs of the
// daemon.
func duOriginal() undo.Original {
	return undo.Original{Path: "system.slice/du.service", File: cgroup.FileCPUs, Unit: "du.service"}
}

// TestUnitsThatLeave checks that CPUs of a unit that has left the configuration are allocated
// after the unit has left them. Another name of the unit keeps them.
func TestUnitsThatLeave(t *testing.T) {
	du, silence := duService(), inventory.UnitStatus{Name: "alias.service", Err: errors.New("no answer")}
	known := inventory.UnitStatus{Name: "du.service", Unit: du}
	alias := inventory.UnitStatus{Name: "alias.service", Unit: du}
	ru := inventory.UnitStatus{Name: "ru.service", Unit: cgroup.Unit{Name: "ru.service", Load: "loaded", Path: "system.slice/ru.service"}}
	for name, c := range map[string]struct {
		units    string
		answers  []inventory.UnitStatus
		reverted bool // the original is restored
		away     bool
		want     string // assignments afterwards
		withheld string
	}{
		"still there":          {"", []inventory.UnitStatus{known}, false, false, "du.service 4-5", "4-5"},
		"reverted":             {"", []inventory.UnitStatus{known}, true, false, "", ""},
		"gone":                 {"", []inventory.UnitStatus{known}, false, true, "", ""},
		"not known any more":   {"", nil, false, false, "du.service 4-5", "4-5"},
		"renamed":              {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{known, alias}, false, false, "alias.service 4-5", ""},
		"renamed, not told":    {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{known}, false, false, "du.service 4-5", "4-5"},
		"renamed, no answer":   {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{known, silence}, false, false, "du.service 4-5", "4-5"},
		"renamed, now in pool": {"units: {alias.service: {pool: management}}\n", []inventory.UnitStatus{known, alias}, false, false, "", ""},
		"another":              {"units: {ru.service: {cpus: 2}}\n", []inventory.UnitStatus{known, ru}, false, false, "du.service 4-5, ru.service 6-7", "4-5"},
		"another, not told":    {"units: {ru.service: {cpus: 2}}\n", []inventory.UnitStatus{known}, false, false, "du.service 4-5", "4-5"},
		"other has come":       {"units: {ru.service: {cpus: 2}}\n", []inventory.UnitStatus{known, ru}, true, false, "ru.service 4-5", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.YAML = nodefixture.PoolsYAML + c.units
			l := n.bareLoop(n.Host())
			if !c.reverted {
				l.journal.Note(duOriginal())
				l.saveJournal()
			}
			for _, a := range c.answers {
				l.inventory.PutUnit(a)
			}
			l.status.away["du.service"] = c.away
			l.assignments = []pools.Assignment{{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(4, 5)}}
			l.pass()
			var got []string
			for _, a := range l.assignments {
				got = append(got, a.Key.Container+" "+a.CPUs.String())
			}
			slices.Sort(got)
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("assignments: %s; want %s", got, c.want)
			}
			if got := l.leavingCPUs().String(); got != c.withheld {
				t.Errorf("given to nobody: %s; want %s", got, c.withheld)
			}
			if free := l.status.plan.Free; free.Overlaps(l.leavingCPUs()) {
				t.Errorf("the plan has %s free", free)
			}
		})
	}
}

// TestUnitBroughtAlong checks that a unit which runs on CPUs of the pool when it is configured
// keeps them.
func TestUnitBroughtAlong(t *testing.T) {
	n := newNode(t)
	n.Units.Install("du.service", cpuset.Of(6, 7))
	n.StartUnit("du.service")
	r := n.start()
	r.quiet()
	before := len(n.Tree.Writes())
	n.YAML = nodefixture.PoolsYAML + "units: {du.service: {cpus: 2}}\n"
	r.loop.reload()
	n.Eventually("assignment on record", func() bool {
		for _, a := range n.Journal().Assignments {
			if a.Container == "du.service" {
				return a.CPUs.Equal(cpuset.Of(6, 7))
			}
		}
		return false
	})
	r.quiet()
	if writes := n.Tree.Writes()[before:]; len(writes) > 0 {
		t.Errorf("writes %v", writes)
	}
}
