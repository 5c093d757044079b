package daemon

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// bareLoop returns a loop that does not run, so that a test can call its methods. Answers of
// workers wait in its mailbox.
func (n *node) bareLoop(h hostenv.Host) *Loop {
	n.T.Helper()
	l, err := newLoop(h, n.options())
	if err != nil {
		n.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, wait := startWorkers(ctx, l)
	n.T.Cleanup(func() { cancel(); wait() })
	return l
}

// saveJournal marks the journal as saved to disk.
func (l *Loop) saveJournal() {
	_, upTo, _ := l.journal.BeginSave(l.now())
	l.journal.EndSave(upTo, nil, l.now())
}

// revertingUnits returns a loop without a goroutine, in which du.service had CPUs 4-5. The
// answers about units have arrived.
func (n *node) revertingUnits(units string, h hostenv.Host, answers ...inventory.UnitStatus) *Loop {
	n.T.Helper()
	n.YAML = nodefixture.PoolsYAML + units
	l := n.bareLoop(h)
	l.journal.Note(duOriginal())
	l.saveJournal()
	for _, a := range answers {
		l.inventory.PutUnit(a)
	}
	return l
}

func duService() cgroup.Unit {
	return cgroup.Unit{Name: "du.service", Load: "loaded", Active: "active", Path: "system.slice/du.service",
		UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(4, 5), Quota: -1}}
}

// TestWhoIsReverted checks that no unit is reverted while a configured name may be another name
// of it.
func TestWhoIsReverted(t *testing.T) {
	silence := errors.New("no answer")
	for name, c := range map[string]struct {
		units   string
		answers []inventory.UnitStatus
		want    bool
	}{
		"not configured":      {"", nil, true},
		"configured":          {"units: {du.service: {cpus: 2}}\n", []inventory.UnitStatus{{Name: "du.service", Unit: duService()}}, false},
		"not asked yet":       {"units: {alias.service: {cpus: 2}}\n", nil, false},
		"no answer":           {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{{Name: "alias.service", Err: silence}}, false},
		"alias":               {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{{Name: "alias.service", Unit: duService()}}, false},
		"alias that is known": {"units: {alias.service: {cpus: 2}}\n", []inventory.UnitStatus{{Name: "alias.service", Unit: duService()}, {Name: "alias.service", Err: silence}}, false},
		"another":             {"units: {ru.service: {cpus: 2}}\n", []inventory.UnitStatus{{Name: "ru.service", Unit: cgroup.Unit{Name: "ru.service", Load: "not-found"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			l := n.revertingUnits(c.units, n.Host(), c.answers...)
			l.revertUnits()
			if got := l.status.reverting["du.service"]; got != c.want {
				t.Errorf("reverting: %t, want %t", got, c.want)
			}
		})
	}
}

// TestRevertEnds checks that an original leaves the journal when the unit has it back. It stays
// while the unit needs it, or may come back with the daemon's value.
func TestRevertEnds(t *testing.T) {
	for name, c := range map[string]struct {
		units string
		err   error
		kept  bool
		again bool // reverted again after a daemon-reload
	}{
		"done":                               {"", nil, false, false},
		"refused":                            {"", errors.New("no answer"), true, false},
		"gone":                               {"", fmt.Errorf("unit du.service: %w", cgroup.ErrGone), true, true},
		"configured again":                   {"units: {du.service: {cpus: 2}}\n", nil, true, false},
		"configured again, after half of it": {"units: {du.service: {cpus: 2}}\n", errors.New("no answer"), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			l := n.revertingUnits(c.units, n.Host())
			l.status.reverting["du.service"] = true
			l.cache.BeginRevert(duOriginal().Path)
			unitReverted{"du.service", duOriginal().Path, c.err}.apply(l)
			if _, kept := l.journal.UnitOriginals()["du.service"]; kept != c.kept {
				t.Errorf("original kept: %t, want %t", kept, c.kept)
			}
			if asked := l.status.asks["du.service"] != nil; asked != (c.units != "") {
				t.Errorf("systemd asked: %t; what is known of the unit is of before the revert", asked)
			}
			l.handle(systemdReloaded{})
			if again := c.kept && !l.status.reverting["du.service"]; again != (c.again || c.units != "") {
				t.Errorf("free to be reverted again: %t", again)
			}
		})
	}
}

// TestRevertOfAUnitThatIsLeftAlone checks that a unit is reverted although it is not confined:
// systemd may apply its properties at any moment.
func TestRevertOfAUnitThatIsLeftAlone(t *testing.T) {
	n := newNode(t)
	inner := cgroup.Unit{Name: "ru.service", Load: "loaded", Path: duService().Path + "/ru.service"}
	l := n.revertingUnits("units: {du.service: {cpus: 2}, ru.service: {cpus: 1}}\n", n.Host(),
		inventory.UnitStatus{Name: "du.service", Unit: duService()}, inventory.UnitStatus{Name: "ru.service", Unit: inner})
	l.cache.BeginRevert(duOriginal().Path)
	unitReverted{"du.service", duOriginal().Path, nil}.apply(l)
	if _, kept := l.journal.UnitOriginals()["du.service"]; kept {
		t.Error("its original was kept")
	}
	if l.status.asks["du.service"] == nil {
		t.Error("systemd is not asked what it holds now")
	}
}

// TestUnitThatWasAway checks that a unit which comes back has its former CPUs until it has left
// them again.
func TestUnitThatWasAway(t *testing.T) {
	n := newNode(t)
	const units = "units: {du.service: {cpus: 2}}\n"
	l := n.revertingUnits(units, n.Host(), inventory.UnitStatus{Name: "du.service", Unit: duService()})
	l.status.away["du.service"] = true // it was away when it was not configured
	l.assignments = []pools.Assignment{{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(4, 5)}}
	l.pass()
	n.YAML = nodefixture.PoolsYAML
	l.handle(configLoaded{config: n.options().Config})
	l.pass()
	if got := l.leavingCPUs().String(); got != "4-5" || l.status.plan.Free.Overlaps(cpuset.Of(4, 5)) {
		t.Errorf("given to nobody: %q, free: %s; want 4-5 given to nobody", got, l.status.plan.Free)
	}
}
