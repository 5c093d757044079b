package units_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/kernelstate"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/retry"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/node/units"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

const (
	du        = "du.service"
	duUnit    = "units: {du.service: {cpus: 2}}\n"
	aliasUnit = "units: {alias.service: {cpus: 2}}\n"
)

// world is a node whose unit du.service had no CPUs before the daemon gave it CPUs 4-5.
type world struct {
	*units.Units
	node *nodefixture.Node
	jobs []func(context.Context) units.Result
	now  time.Time
}

func newWorld(t *testing.T, yaml string, known ...lookup.UnitStatus) *world {
	t.Helper()
	w := &world{node: nodefixture.New(t, nodefixture.Spec{}), now: time.Now()}
	h := w.node.Host()
	w.Units = units.New(units.Sources{
		Host: &h, Settings: new(desired.Settings), Inventory: inventory.New(h.Driver), Cache: kernelstate.New(h.Cgroups.Reader(), w.node.Logger()),
		Journal: undo.Document{}.Journal(), Backoffs: retry.New(), Log: w.node.Logger(),
		Submit: func(_ string, job func(context.Context) units.Result) { w.jobs = append(w.jobs, job) },
	})
	w.configure(yaml)
	w.Journal.Originals.Note(undo.Original{Path: duService().Path, File: cgroup.FileCPUs, Unit: du})
	_, upTo, _ := w.Journal.BeginSave(w.now)
	w.Journal.EndSave(upTo, nil, w.now)
	for _, u := range known {
		w.Inventory.PutUnit(u)
	}
	return w
}

func (w *world) configure(yaml string) {
	w.node.T.Helper()
	w.node.YAML = nodefixture.PoolsYAML + yaml
	c, err := w.node.Config()
	if err == nil {
		_, err = w.Settings.Begin(c, w.node.CPUs.Now(), nil)
	}
	if err != nil {
		w.node.T.Fatal(err)
	}
	w.Follow(false, w.now)
}

// work runs the submitted jobs and applies their results.
func (w *world) work() {
	jobs := w.jobs
	w.jobs = nil
	for _, job := range jobs {
		w.Apply(job(w.node.T.Context()), w.now)
	}
}

func (w *world) next() (at time.Time) {
	w.Next(func(due time.Time) { at = due })
	return at
}

// settle settles the assignment of CPUs 4-5 to du.service, and returns the assignments afterwards.
func (w *world) settle() string {
	var all []string
	for _, a := range w.Settle([]pools.Assignment{{Key: pools.Key{Container: du}, CPUs: cpuset.Of(4, 5)}}, w.now) {
		all = append(all, a.Container+" "+a.CPUs.String())
	}
	return strings.Join(all, ", ")
}

func (w *world) leaving() string {
	var all cpuset.Set
	for _, cpus := range w.Leaving() {
		all = all.Union(cpus)
	}
	return all.String()
}

func duService() systemd.Unit {
	return systemd.Unit{Name: du, Load: "loaded", Active: "active", Path: "system.slice/du.service",
		UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(4, 5), Quota: -1}}
}

// otherReverts is the systemd of the node with other reverts.
type otherReverts struct {
	hostenv.Units
	revert error
}

func (s *otherReverts) Revert(context.Context, string, []systemd.Property, cpuset.Set) error {
	return s.revert
}

// TestRevertedUnits checks that no unit is reverted while a configured name may be another name
// of it.
func TestRevertedUnits(t *testing.T) {
	silence := errors.New("no answer")
	for name, c := range map[string]struct {
		yaml  string
		known []lookup.UnitStatus
		want  bool
	}{
		"not configured":      {"", nil, true},
		"configured":          {duUnit, []lookup.UnitStatus{{Name: du, Unit: duService()}}, false},
		"not asked yet":       {aliasUnit, nil, false},
		"no answer":           {aliasUnit, []lookup.UnitStatus{{Name: "alias.service", Err: silence}}, false},
		"alias":               {aliasUnit, []lookup.UnitStatus{{Name: "alias.service", Unit: duService()}}, false},
		"alias that is known": {aliasUnit, []lookup.UnitStatus{{Name: "alias.service", Unit: duService()}, {Name: "alias.service", Err: silence}}, false},
		"another":             {"units: {ru.service: {cpus: 2}}\n", []lookup.UnitStatus{{Name: "ru.service", Unit: systemd.Unit{Name: "ru.service", Load: "not-found"}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.yaml, c.known...)
			w.Revert()
			if got := len(w.jobs) > 0; got != c.want {
				t.Errorf("revert begun: %t, want %t", got, c.want)
			}
		})
	}
}

// TestRevertEnds checks that an original leaves the journal when the unit has it back. It stays
// while the unit needs it, or may come back with the daemon's value.
func TestRevertEnds(t *testing.T) {
	for name, c := range map[string]struct {
		yaml  string // when systemd answers
		err   error
		kept  bool
		again bool // reverted again after a daemon-reload, when it is not configured
	}{
		"done":                               {"", nil, false, false},
		"refused":                            {"", errors.New("no answer"), true, false},
		"gone":                               {"", fmt.Errorf("unit du.service: %w", cgroup.ErrGone), true, true},
		"configured again":                   {duUnit, nil, true, true},
		"configured again, after half of it": {duUnit, errors.New("no answer"), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			w.node.Units.Install(du, cpuset.Set{})
			w.Host.Units = &otherReverts{w.Host.Units, c.err}
			w.Revert()
			w.configure(c.yaml)
			jobs := w.jobs
			w.jobs = nil
			w.Apply(jobs[0](t.Context()), w.now)
			if _, kept := w.Journal.Originals.OfUnits()[du]; kept != c.kept {
				t.Errorf("original kept: %t, want %t", kept, c.kept)
			}
			if asked := len(w.jobs) > 0; asked != (c.yaml != "") {
				t.Errorf("systemd asked: %t; the known properties are from before the revert", asked)
			}
			w.Reloaded(w.now)
			w.configure("")
			w.work()
			w.Revert()
			if again := len(w.jobs) > 0; again != c.again {
				t.Errorf("reverted again: %t; want %t", again, c.again)
			}
		})
	}
}

// TestRevertOfUnitWithConfiguredPart checks that a unit is reverted although it is not confined:
// systemd may apply its properties at any moment.
func TestRevertOfUnitWithConfiguredPart(t *testing.T) {
	inner := systemd.Unit{Name: "ru.service", Load: "loaded", Path: duService().Path + "/ru.service"}
	w := newWorld(t, "")
	w.node.Units.Install(du, cpuset.Set{})
	w.Revert()
	w.configure("units: {du.service: {cpus: 2}, ru.service: {cpus: 1}}\n")
	w.Inventory.PutUnit(lookup.UnitStatus{Name: du, Unit: duService()})
	w.Inventory.PutUnit(lookup.UnitStatus{Name: "ru.service", Unit: inner})
	w.work()
	if _, kept := w.Journal.Originals.OfUnits()[du]; kept {
		t.Error("its original was kept")
	}
	if len(w.jobs) != 1 {
		t.Errorf("%d questions to systemd about the properties now; want 1", len(w.jobs))
	}
}

// TestUnitThatWasAway checks that a unit which comes back has its former CPUs until it has left
// them again.
func TestUnitThatWasAway(t *testing.T) {
	w := newWorld(t, "", lookup.UnitStatus{Name: du, Unit: duService()})
	w.Host.Units = &otherReverts{w.Host.Units, cgroup.ErrGone}
	w.Revert()
	w.work()
	if got := w.settle(); got != "" {
		t.Errorf("assignments while the unit does not exist: %s; want none", got)
	}
	w.configure(duUnit)
	w.Inventory.PutUnit(lookup.UnitStatus{Name: du, Unit: duService()})
	if got := w.settle(); got != "du.service 4-5" {
		t.Errorf("assignments of the configured unit: %s; want du.service 4-5", got)
	}
	w.configure("")
	if w.settle(); w.leaving() != "4-5" {
		t.Errorf("reserved: %q; want 4-5", w.leaving())
	}
}

// TestUnitsThatLeave checks that the CPUs of a unit that has left the configuration stay reserved
// until the unit has left them. Another name of the unit keeps them.
func TestUnitsThatLeave(t *testing.T) {
	silence := lookup.UnitStatus{Name: "alias.service", Err: errors.New("no answer")}
	known := lookup.UnitStatus{Name: du, Unit: duService()}
	alias := lookup.UnitStatus{Name: "alias.service", Unit: duService()}
	ru := lookup.UnitStatus{Name: "ru.service", Unit: systemd.Unit{Name: "ru.service", Load: "loaded", Path: "system.slice/ru.service"}}
	const ruUnit = "units: {ru.service: {cpus: 2}}\n"
	for name, c := range map[string]struct {
		yaml     string
		known    []lookup.UnitStatus
		reverted bool   // the original is restored
		want     string // assignments afterwards
		reserved string
	}{
		"still there":          {"", []lookup.UnitStatus{known}, false, "du.service 4-5", "4-5"},
		"reverted":             {"", []lookup.UnitStatus{known}, true, "", ""},
		"not known any more":   {"", nil, false, "du.service 4-5", "4-5"},
		"renamed":              {aliasUnit, []lookup.UnitStatus{known, alias}, false, "alias.service 4-5", ""},
		"renamed, not told":    {aliasUnit, []lookup.UnitStatus{known}, false, "du.service 4-5", "4-5"},
		"renamed, no answer":   {aliasUnit, []lookup.UnitStatus{known, silence}, false, "du.service 4-5", "4-5"},
		"renamed, now in pool": {"units: {alias.service: {pool: management}}\n", []lookup.UnitStatus{known, alias}, false, "", ""},
		"another":              {ruUnit, []lookup.UnitStatus{known, ru}, false, "du.service 4-5", "4-5"},
		"another, not told":    {ruUnit, []lookup.UnitStatus{known}, false, "du.service 4-5", "4-5"},
		"other has come":       {ruUnit, []lookup.UnitStatus{known, ru}, true, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.yaml, c.known...)
			if c.reverted {
				w.Journal.Originals.ForgetUnit(du)
			}
			if got := w.settle(); got != c.want {
				t.Errorf("assignments: %q; want %q", got, c.want)
			}
			if got := w.leaving(); got != c.reserved {
				t.Errorf("reserved: %q; want %q", got, c.reserved)
			}
		})
	}
}

// TestUnitWithNewCPUs checks that a unit with CPUs of the last plan is known until it has left them.
func TestUnitWithNewCPUs(t *testing.T) {
	w := newWorld(t, duUnit, lookup.UnitStatus{Name: du, Unit: duService()})
	w.Settle(nil, w.now)
	w.Assign([]pools.Assignment{{Key: pools.Key{Container: du}, CPUs: cpuset.Of(4, 5)}})
	w.configure("")
	if got := w.settle(); got != "du.service 4-5" || !w.Leaving()[duService().Path].Equal(cpuset.Of(4, 5)) {
		t.Errorf("assignments %q, reserved in %v; want CPUs 4-5 reserved in %s", got, w.Leaving(), duService().Path)
	}
	if len(w.jobs) > 0 {
		t.Errorf("%d questions about a unit that is known", len(w.jobs))
	}
}

// TestUnitIsAskedOnce checks that all events during a question about a unit lead to one more
// question, after a pause.
func TestUnitIsAskedOnce(t *testing.T) {
	w := newWorld(t, duUnit)
	for range 100 {
		w.Ask(du, w.now)
	}
	if len(w.jobs) != 1 {
		t.Fatalf("%d questions at once; want 1", len(w.jobs))
	}
	w.work()
	at := w.next()
	if !at.After(w.now) {
		t.Errorf("next question %v after the first; want a pause", at.Sub(w.now))
	}
	if len(w.jobs) > 0 {
		t.Errorf("%d more questions without a pause", len(w.jobs))
	}
	w.AskDue(at)
	if len(w.jobs) != 1 {
		t.Errorf("%d questions after the pause; want 1", len(w.jobs))
	}
	if at := w.next(); !at.IsZero() {
		t.Errorf("one more question is due at %v", at)
	}
}

// TestSilentUnit checks that a unit without an answer leads to another question, and keeps its
// earlier properties.
func TestSilentUnit(t *testing.T) {
	w := newWorld(t, duUnit, lookup.UnitStatus{Name: du, Unit: duService()})
	w.Note(lookup.UnitStatus{Name: du, Err: errors.New("no answer")}, w.now)
	if at := w.next(); !at.After(w.now) {
		t.Errorf("next question at %v; want one later than %v", at, w.now)
	}
	if u := w.Inventory.Objects().Units().Get(du); u == nil || !u.Unit.CPUs.Equal(cpuset.Of(4, 5)) {
		t.Errorf("unit %+v; want the CPUs of the last answer", u)
	}
	w.Note(lookup.UnitStatus{Name: "other.service", Unit: systemd.Unit{Name: "other.service"}}, w.now)
	if w.Inventory.Objects().Units().Get("other.service") != nil {
		t.Error("a unit is recorded that the configuration does not contain")
	}
	w.AskAll(w.next())
	if len(w.jobs) != 1 {
		t.Errorf("%d questions about the units of the configuration; want 1", len(w.jobs))
	}
}

// TestUnreadUnitIsLogged checks that a unit without answers is logged once until systemd answers.
func TestUnreadUnitIsLogged(t *testing.T) {
	w := newWorld(t, duUnit)
	silent, told := lookup.UnitStatus{Name: du, Err: errors.New("no answer")}, lookup.UnitStatus{Name: du, Unit: duService()}
	for i, f := range []lookup.UnitStatus{told, silent, silent, told, silent} {
		w.Note(f, w.now)
		if got, want := len(w.node.Logged("read unit")), []int{0, 1, 1, 1, 2}[i]; got != want {
			t.Errorf("after answer %d it has been logged %d times, want %d", i, got, want)
		}
	}
}
