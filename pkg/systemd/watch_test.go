package systemd

import (
	"testing"

	godbus "github.com/godbus/dbus/v5"

	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

func TestPlannedGroup(t *testing.T) {
	for _, c := range []struct{ unit, slice, want string }{
		{"du.service", "system.slice", "system.slice/du.service"},
		{"du@1.service", "system-du.slice", "system.slice/system-du.slice/du@1.service"},
		{"radio-fast.slice", "radio.slice", "radio.slice/radio-fast.slice"},
		{"root.service", "-.slice", "root.service"},
		{"cpu.service", "system.slice", "system.slice/_cpu.service"},
		{"_x.service", "system.slice", "system.slice/__x.service"},
		{"du.service", "no slice", ""},
		{"du.service", "../x.slice", ""},
	} {
		got, err := plannedGroup(c.unit, c.slice)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("plannedGroup(%q, %q) = %q, %v; want %q", c.unit, c.slice, got, err, c.want)
		}
		if err != nil {
			continue
		}
		if name, ok := cgroup.Path(got).Unit(); !ok || name != c.unit {
			t.Errorf("the unit of %s is %q, %t; want %q", got, name, ok, c.unit)
		}
	}
}

func TestSubject(t *testing.T) {
	const object = godbus.ObjectPath("/org/freedesktop/systemd1/unit/du_2eservice")
	for name, c := range map[string]struct {
		signal godbus.Signal
		want   string
	}{
		"loaded":    {godbus.Signal{Path: managerPath, Name: managerInterface + ".UnitNew", Body: []any{"du.service", object}}, ""},
		"forgotten": {godbus.Signal{Path: managerPath, Name: managerInterface + ".UnitRemoved", Body: []any{"du.service", object}}, ""},
		"job":       {godbus.Signal{Path: managerPath, Name: jobRemoved, Body: []any{uint32(1), object, "du.service", "done"}}, "du_2eservice"},
		"changed":   {godbus.Signal{Path: object, Name: propertiesChanged, Body: []any{unitIface, map[string]any{}, []string{}}}, "du_2eservice"},
		"service":   {godbus.Signal{Path: object, Name: propertiesChanged, Body: []any{"org.freedesktop.systemd1.Service", 1, 2}}, ""},
		"reload":    {godbus.Signal{Path: managerPath, Name: managerInterface + ".Reloading", Body: []any{false}}, ""},
		"short":     {godbus.Signal{Path: object, Name: propertiesChanged}, ""},
		"garbled":   {godbus.Signal{Path: managerPath, Name: jobRemoved, Body: []any{uint32(1), object, 1, "done"}}, ""},
	} {
		if got := subject(&c.signal); got != c.want {
			t.Errorf("%s: %q; want %q", name, got, c.want)
		}
	}
}
