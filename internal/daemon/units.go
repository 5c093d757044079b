package daemon

import (
	"cmp"
	"strings"

	services "github.com/cpupoold/cpupoold/internal/host"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// unitEntry is a systemd unit of the configuration.
type unitEntry struct {
	unit  cgroup.Unit
	files services.Setting // what an administrator's files say
	err   error            // systemd could not be asked; what is in unit may be old
	// considered says that its CPUs have been recovered, if it had any.
	considered bool
}

// unitFetched is what systemd says of a unit.
type unitFetched struct {
	name  string
	unit  cgroup.Unit
	files services.Setting
	err   error
}

// keyOf names the owner that a container is an instance of.
func (m *model) keyOf(e *containerEntry) pools.Key {
	p := m.pods[e.container.PodID]
	if p == nil {
		return pools.Key{PodUID: e.container.PodID, Container: e.container.Name}
	}
	return pools.Key{PodUID: p.uid, Container: e.container.Name}
}

// mayBeExclusive says that a container is one of those that get CPUs of their own,
// or that it cannot be told.
func (m *model) mayBeExclusive(e *containerEntry) bool {
	p, r := m.pods[e.container.PodID], asked(e.container)
	return p != nil && (p.qos == pools.QoSGuaranteed || p.unread()) && (r.Shares == 0 || exclusiveCPUs(r) > 0)
}

// unconsidered returns the containers and units that recovery has not looked at, and
// takes note that it does now.
func (m *model) unconsidered() (late []*containerEntry, units []pools.Key) {
	for _, e := range m.containers {
		if !e.considered && e.err == nil && m.pods[e.container.PodID] != nil {
			e.considered = true
			late = append(late, e)
		}
	}
	for name, e := range m.units {
		if !e.considered && e.unit.Name != "" {
			e.considered = true
			units = append(units, unitKey(name))
		}
	}
	return late, units
}

func compareKeys(a, b pools.Key) int {
	return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container))
}

// putUnit takes over what systemd says. Without an answer the last one stands.
func (m *model) putUnit(f unitFetched) {
	e := &unitEntry{unit: f.unit, files: f.files, err: f.err}
	if old := m.units[f.name]; old != nil {
		e.considered = old.considered
		if f.err != nil {
			e.unit, e.files = old.unit, old.files
		}
	}
	m.units[f.name] = e
}

// unitName is a unit's own name, which may differ from the configuration's.
func (m *model) unitName(configured string) string {
	if e := m.units[configured]; e != nil && e.unit.Name != "" {
		return e.unit.Name
	}
	return configured
}

// unitAt returns the configured name of the unit whose cgroup p is, or will be; ""
// if it is none's.
func (m *model) unitAt(p cgroup.Path) string {
	for name, e := range m.units {
		if e.unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// unitTarget is the desired state of a unit's cgroup. One that systemd cannot start
// has none, but keeps its CPUs: it may be installed at any moment.
func unitTarget(u pools.UnitPlan, m *model) (cgroup.Target, bool) {
	e := m.units[u.Name]
	if e == nil || !e.unit.Loaded() || e.unit.Path == "" {
		return cgroup.Target{}, false
	}
	return cgroup.Target{
		Path: e.unit.Path, Unit: e.unit.Name, CPUs: u.CPUs, Mems: u.Mems, Exclusive: u.Exclusive, Reason: u.Reason.Text,
	}, true
}

// record is what systemd would put back, or start the unit with.
func (e *unitEntry) record() cgroup.Current {
	return cgroup.Current{Unit: e.unit.UnitState, Recorded: e.unit.CPUs, RecordedKnown: e.err == nil && e.unit.Known}
}

// takeUnits makes the units of the configuration those that are followed.
func (l *loop) takeUnits() {
	names := l.settings.unitNames()
	for _, name := range names {
		if l.model.units[name] == nil && l.status.listed {
			l.fetchUnit(name)
		}
	}
	l.forgetUnits()
	l.watched.set(names)
}

// codeUnitMissing is the code of units that systemd cannot start, or is not asked
// about.
const codeUnitMissing pools.Code = "UnitMissing"

// unitProblems are the units of the configuration that have no cgroup to be placed.
func (l *loop) unitProblems() []pools.Problem {
	var all []pools.Problem
	hosts := l.settings.hostUnits()
	for _, name := range l.settings.placedNames() {
		if inside := l.model.encloses(name, hosts); inside != "" {
			text := "its cgroup contains " + inside + ", which would be limited to its CPUs; it is left alone"
			all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: codeUnitEncloses, Text: text}})
			continue
		}
		text := "there is no systemd here"
		if e := l.model.units[name]; e != nil {
			switch {
			case e.err != nil:
				text = e.err.Error()
			case !e.unit.Loaded():
				text = "systemd cannot start it: " + e.unit.Load + "; its CPUs are kept for it"
			default:
				continue
			}
		} else if l.units != nil {
			continue // asked a moment ago
		}
		all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: codeUnitMissing, Text: text}})
	}
	return all
}
