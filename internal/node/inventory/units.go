package inventory

import (
	"cmp"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Unit is a systemd unit of the configuration.
type Unit struct {
	Unit  cgroup.Unit
	Files hostslices.Setting // what an administrator's files say
	Err   error              // systemd could not be asked; what is in unit may be old
	// considered says that its CPUs have been recovered, if it had any.
	considered bool
}

// UnitStatus is what systemd says of a unit.
type UnitStatus struct {
	Name  string
	Unit  cgroup.Unit
	files hostslices.Setting
	Err   error
}

// KeyOf names the owner that a container is an instance of.
func (m *Inventory) KeyOf(e *Container) pools.Key {
	p := m.Pods[e.Container.PodID]
	if p == nil {
		return pools.Key{PodUID: e.Container.PodID, Container: e.Container.Name}
	}
	return pools.Key{PodUID: p.Uid, Container: e.Container.Name}
}

// MayBeExclusive says that a container is one of those that get CPUs of their own,
// or that it cannot be told.
func (m *Inventory) MayBeExclusive(e *Container) bool {
	p, r := m.Pods[e.Container.PodID], RequestOf(e.Container)
	return p != nil && (p.Qos == pools.QoSGuaranteed || p.Unread()) && (r.Shares == 0 || ExclusiveCPUs(r) > 0)
}

// Unconsidered returns the containers and units that recovery has not looked at, and
// takes note that it does now.
func (m *Inventory) Unconsidered() (late []*Container, units []pools.Key) {
	for _, e := range m.Containers {
		if !e.Recovered && e.Err == nil && m.Pods[e.Container.PodID] != nil {
			e.Recovered = true
			late = append(late, e)
		}
	}
	for name, e := range m.Units {
		if !e.considered && e.Unit.Name != "" {
			e.considered = true
			units = append(units, UnitKey(name))
		}
	}
	return late, units
}

func CompareKeys(a, b pools.Key) int {
	return cmp.Or(strings.Compare(a.PodUID, b.PodUID), strings.Compare(a.Container, b.Container))
}

// PutUnit takes over what systemd says. Without an answer the last one stands.
func (m *Inventory) PutUnit(f UnitStatus) {
	e := &Unit{Unit: f.Unit, Files: f.files, Err: f.Err}
	if old := m.Units[f.Name]; old != nil {
		e.considered = old.considered
		if f.Err != nil {
			e.Unit, e.Files = old.Unit, old.Files
		}
	}
	m.Units[f.Name] = e
}

// UnitName is a unit's own name, which may differ from the configuration's.
func (m *Inventory) UnitName(configured string) string {
	if e := m.Units[configured]; e != nil && e.Unit.Name != "" {
		return e.Unit.Name
	}
	return configured
}

// UnitAt returns the configured name of the unit whose cgroup p is, or will be; ""
// if it is none's.
func (m *Inventory) UnitAt(p cgroup.Path) string {
	for name, e := range m.Units {
		if e.Unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// Record is what systemd would put back, or start the unit with.
func (e *Unit) Record() cgroup.Current {
	return cgroup.Current{Unit: e.Unit.UnitState, Recorded: e.Unit.CPUs, RecordedKnown: e.Err == nil && e.Unit.Known}
}
