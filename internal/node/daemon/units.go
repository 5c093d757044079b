package daemon

import (
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// takeUnits makes the units of the configuration those that are followed.
func (l *Loop) takeUnits() {
	names := l.settings.UnitNames()
	for _, name := range names {
		if l.inventory.Unit(name) == nil && l.status.listed {
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
func (l *Loop) unitProblems() []pools.Problem {
	var all []pools.Problem
	hosts := l.settings.HostUnits()
	for _, name := range l.settings.PlacedNames() {
		if inside := l.inventory.Encloses(name, hosts); inside != "" {
			text := "its cgroup contains " + inside + ", which would be limited to its CPUs; it is left alone"
			all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: desired.CodeUnitEncloses, Text: text}})
			continue
		}
		text := "there is no systemd here"
		if e := l.inventory.Unit(name); e != nil {
			switch {
			case e.Err != nil:
				text = e.Err.Error()
			case !e.Unit.Loaded():
				text = "systemd cannot start it: " + e.Unit.Load + "; its CPUs are kept for it"
			default:
				continue
			}
		} else if l.Units != nil {
			continue // asked a moment ago
		}
		all = append(all, pools.Problem{Unit: name, Reason: pools.Reason{Code: codeUnitMissing, Text: text}})
	}
	return all
}
