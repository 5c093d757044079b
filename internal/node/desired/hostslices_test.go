package desired_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// hostNode returns a node with the units of host services.
func hostNode(units ...string) *inventory.Inventory {
	m := inventory.New(cgroup.DriverSystemd)
	for _, name := range units {
		m.PutUnit(lookup.UnitStatus{Name: name, Unit: systemd.Unit{Name: name, Load: "loaded", Path: cgroup.Path(name), UnitState: cgroup.UnitState{Known: true}}})
	}
	return m
}

func hostSettings(t *testing.T, yaml string, cpus int) desired.Settings {
	t.Helper()
	var s desired.Settings
	if _, err := s.Begin(parse(t, yaml), machine(cpus), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestHostServices checks the targets of host services.
func TestHostServices(t *testing.T) {
	const confined = "hostSlices: {enabled: true}\n"
	for name, c := range map[string]struct {
		yaml    string
		cpus    int
		journal undo.Document
		change  func(*inventory.Inventory)
		want    map[string]string // CPUs and weight by unit
	}{
		"off":      {yaml: nodefixture.PoolsYAML, cpus: 8},
		"confined": {yaml: nodefixture.PoolsYAML + confined, cpus: 8, want: map[string]string{"system.slice": "0-1 0", "user.slice": "0-1 0"}},
		"a weight": {yaml: nodefixture.PoolsYAML + "hostSlices: {enabled: true, weight: 50}\n", cpus: 8, want: map[string]string{"system.slice": "0-1 50", "user.slice": "0-1 50"}},
		"no list":  {yaml: strings.Replace(nodefixture.PoolsYAML, "cpus: 0-1", "cpus: all", 1) + confined, cpus: 8},
		"offline":  {yaml: strings.Replace(nodefixture.PoolsYAML, "cpus: 0-1", "cpus: 8-9", 1) + confined, cpus: 8, want: map[string]string{"system.slice": "2-3 0", "user.slice": "2-3 0"}},
		"a foreign": {yaml: nodefixture.PoolsYAML + confined, cpus: 8, change: func(m *inventory.Inventory) {
			m.PutUnit(lookup.UnitStatus{Name: "user.slice", Unit: systemd.Unit{Name: "user.slice", Load: "loaded", Path: "user.slice", UnitState: cgroup.UnitState{Known: true, CPUs: cpuset.Of(5)}}})
		}, want: map[string]string{"system.slice": "0-1 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := hostNode("system.slice", "user.slice")
			if c.change != nil {
				c.change(m)
			}
			in := desired.Input{Settings: hostSettings(t, c.yaml, c.cpus), Objects: m.Objects(), Originals: c.journal.Journal().Originals, Build: pools.Build}
			d := in.Decide()
			got := make(map[string]string)
			for _, target := range d.Targets {
				if !target.Around {
					t.Errorf("target %+v", target)
				}
				got[target.Unit] = fmt.Sprint(target.CPUs, " ", target.Weight)
			}
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (len(d.Hosts) > 0) != (len(in.Settings.HostUnits()) > 0) {
				t.Errorf("%d verdicts about %v", len(d.Hosts), in.Settings.HostUnits())
			}
		})
	}
}

// TestHostProblems checks the problems with host services.
func TestHostProblems(t *testing.T) {
	const confined = "hostSlices: {enabled: true, units: [extra.slice]}\n"
	fits := hostSettings(t, nodefixture.PoolsYAML+confined, 8)
	noList := hostSettings(t, strings.Replace(nodefixture.PoolsYAML, "cpus: 0-1", "cpus: all", 1)+confined, 8)
	off := hostSettings(t, nodefixture.PoolsYAML, 8)
	m := hostNode("system.slice")
	for name, c := range map[string]struct {
		settings desired.Settings
		verdict  hostslices.Verdict
		systemd  bool
		want     pools.Code
	}{
		"off":             {settings: off, systemd: true},
		"no list of CPUs": {settings: noList, systemd: true, want: "HostUnconfined"},
		"no systemd":      {settings: fits, want: "HostUnconfined"},
		"confined":        {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.Confined}, systemd: true},
		"foreign CPUs":    {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.Foreign}, systemd: true, want: "HostForeign"},
		"a partition":     {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.Foreign, Partition: "root"}, systemd: true, want: "UnitPartition"},
		"pods in it":      {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.HoldsPods}, systemd: true, want: "UnitEncloses"},
		"a unit in it":    {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.Confined, Also: cpuset.Of(6)}, systemd: true, want: "HostShares"},
		"not installed":   {settings: fits, verdict: hostslices.Verdict{Name: "extra.slice", State: hostslices.Absent}, systemd: true, want: "UnitMissing"},
		"no user.slice":   {settings: fits, verdict: hostslices.Verdict{Name: "user.slice", State: hostslices.Absent}, systemd: true},
		"unreadable":      {settings: fits, verdict: hostslices.Verdict{Name: "system.slice", State: hostslices.Unknown}, systemd: true, want: "UnitMissing"},
		"no answer yet":   {settings: fits, verdict: hostslices.Verdict{Name: "user.slice", State: hostslices.Unknown}, systemd: true},
	} {
		var got pools.Code
		for _, p := range c.settings.HostProblems(m.Objects(), []hostslices.Verdict{c.verdict}, c.systemd) {
			got += p.Code
		}
		if got != c.want {
			t.Errorf("%s: problems %q; want %q", name, got, c.want)
		}
	}
}
