package inventory

import (
	"cmp"
	"strings"

	services "github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// unitEntry is a systemd unit of the configuration.
type UnitEntry struct {
	Unit  cgroup.Unit
	Files services.Setting // what an administrator's files say
	Err   error            // systemd could not be asked; what is in unit may be old
	// considered says that its CPUs have been recovered, if it had any.
	considered bool
}

// unitFetched is what systemd says of a unit.
type UnitFetched struct {
	Name  string
	Unit  cgroup.Unit
	files services.Setting
	Err   error
}

// keyOf names the owner that a container is an instance of.
func (m *Model) KeyOf(e *ContainerEntry) pools.Key {
	p := m.Pods[e.Container.PodID]
	if p == nil {
		return pools.Key{PodUID: e.Container.PodID, Container: e.Container.Name}
	}
	return pools.Key{PodUID: p.Uid, Container: e.Container.Name}
}

// mayBeExclusive says that a container is one of those that get CPUs of their own,
// or that it cannot be told.
func (m *Model) MayBeExclusive(e *ContainerEntry) bool {
	p, r := m.Pods[e.Container.PodID], Asked(e.Container)
	return p != nil && (p.Qos == pools.QoSGuaranteed || p.Unread()) && (r.Shares == 0 || ExclusiveCPUs(r) > 0)
}

// unconsidered returns the containers and units that recovery has not looked at, and
// takes note that it does now.
func (m *Model) Unconsidered() (late []*ContainerEntry, units []pools.Key) {
	for _, e := range m.Containers {
		if !e.Considered && e.Err == nil && m.Pods[e.Container.PodID] != nil {
			e.Considered = true
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

// putUnit takes over what systemd says. Without an answer the last one stands.
func (m *Model) PutUnit(f UnitFetched) {
	e := &UnitEntry{Unit: f.Unit, Files: f.files, Err: f.Err}
	if old := m.Units[f.Name]; old != nil {
		e.considered = old.considered
		if f.Err != nil {
			e.Unit, e.Files = old.Unit, old.Files
		}
	}
	m.Units[f.Name] = e
}

// unitName is a unit's own name, which may differ from the configuration's.
func (m *Model) UnitName(configured string) string {
	if e := m.Units[configured]; e != nil && e.Unit.Name != "" {
		return e.Unit.Name
	}
	return configured
}

// unitAt returns the configured name of the unit whose cgroup p is, or will be; ""
// if it is none's.
func (m *Model) UnitAt(p cgroup.Path) string {
	for name, e := range m.Units {
		if e.Unit.Path == p && p != "" {
			return name
		}
	}
	return ""
}

// record is what systemd would put back, or start the unit with.
func (e *UnitEntry) Record() cgroup.Current {
	return cgroup.Current{Unit: e.Unit.UnitState, Recorded: e.Unit.CPUs, RecordedKnown: e.Err == nil && e.Unit.Known}
}
