package desired_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestUnitProblems checks the problem of a unit that cannot be placed.
func TestUnitProblems(t *testing.T) {
	s := desired.Settings{Config: &config.Config{}, Pools: pools.Pools{Units: []pools.UnitSpec{{Name: "du.service", CPUs: 2}}}}
	for name, c := range map[string]struct {
		unit    *lookup.UnitStatus
		systemd bool
		code    pools.Code
		part    string
	}{
		"placed":        {unit: &lookup.UnitStatus{Unit: systemd.Unit{Load: "loaded", Path: "system.slice/du.service"}}, systemd: true},
		"no answer yet": {systemd: true},
		"no systemd":    {code: "UnitMissing", part: "no systemd"},
		"not installed": {unit: &lookup.UnitStatus{Unit: systemd.Unit{Load: "not-found"}}, systemd: true, code: "UnitMissing", part: "not-found"},
		"partition":     {unit: &lookup.UnitStatus{Unit: systemd.Unit{Load: "loaded", Path: "system.slice/du.service", Partition: "isolated"}}, systemd: true, code: "UnitPartition", part: "CPUSetPartition=isolated"},
		"unreadable":    {unit: &lookup.UnitStatus{Err: errors.New("no answer")}, systemd: true, code: "UnitMissing", part: "no answer"},
	} {
		m := inventory.New(cgroup.DriverSystemd)
		if c.unit != nil {
			c.unit.Name, c.unit.Unit.Name = "du.service", "du.service"
			m.PutUnit(*c.unit)
		}
		got := s.UnitProblems(m.Objects(), c.systemd)
		if (len(got) == 1) != (c.code != "") || len(got) == 1 && (got[0].Code != c.code || got[0].Unit != "du.service" || !strings.Contains(got[0].Text, c.part)) {
			t.Errorf("%s: problems %v; want %s with %q", name, got, c.code, c.part)
		}
	}
}

// TestOwnerOf checks the key of a target: of the configured name of a unit, of a container, and of
// no owner.
func TestOwnerOf(t *testing.T) {
	s := desired.Settings{Pools: pools.Pools{Units: []pools.UnitSpec{{Name: "alias.service", CPUs: 2}}}}
	m := inventory.New(cgroup.DriverSystemd)
	m.PutUnit(lookup.UnitStatus{Name: "alias.service", Unit: systemd.Unit{Name: "du.service"}})
	m.PutUnit(lookup.UnitStatus{Name: "host.service", Unit: systemd.Unit{Name: "host.service"}})
	m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u"}})
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app"}})
	for _, c := range []struct {
		target cgroup.Target
		want   pools.Key
	}{
		{cgroup.Target{Unit: "du.service"}, pools.Key{Container: "alias.service"}},
		{cgroup.Target{Unit: "host.service"}, pools.Key{}},
		{cgroup.Target{Container: "c"}, pools.Key{PodUID: "u", Container: "app"}},
		{cgroup.Target{Path: "kubepods-podu.slice"}, pools.Key{}},
	} {
		if got := s.OwnerOf(c.target, m.Objects()); got != c.want {
			t.Errorf("owner of %+v: %v; want %v", c.target, got, c.want)
		}
	}
}

// TestInherit checks that a unit under a new name keeps its CPUs.
func TestInherit(t *testing.T) {
	s := desired.Settings{Pools: pools.Pools{Units: []pools.UnitSpec{{Name: "new.service", CPUs: 2}, {Name: "shared.service"}}}}
	former := pools.Assignment{Key: pools.Key{Container: "old.service"}, CPUs: cpuset.Of(4), Away: cpuset.Of(5)}
	held := []pools.Assignment{{Key: pools.Key{Container: "new.service"}, CPUs: cpuset.Of(6)}}
	for name, c := range map[string]struct {
		all  []pools.Assignment
		heir string
		want string
	}{
		"exclusive":     {nil, "new.service", "4-5"},
		"has CPUs":      {held, "new.service", "6"},
		"shared":        {nil, "shared.service", ""},
		"not in config": {nil, "other.service", ""},
	} {
		got := pools.Assigned(s.Inherit(c.all, c.heir, former), pools.Key{Container: c.heir})
		if got.String() != c.want {
			t.Errorf("%s: CPUs %s; want %q", name, got, c.want)
		}
	}
}

// TestOwners checks the owners of a plan, their CPUs, and the CPUs with idle siblings.
func TestOwners(t *testing.T) {
	plan := pools.Plan{
		Pods: []pools.PodPlan{{UID: "u", Namespace: "default", Name: "p", Containers: []pools.Placement{
			{ID: "c", Name: "app", Exclusive: true, CPUs: cpuset.Of(2)}, {ID: "d", Name: "ended", Exclusive: true, CPUs: cpuset.Of(3), State: pools.Exited}, {ID: "e", Name: "side", CPUs: cpuset.Of(0)},
		}}},
		Units:       []pools.UnitPlan{{Name: "du.service", Exclusive: true, CPUs: cpuset.Of(6)}, {Name: "log.service", CPUs: cpuset.Of(0)}},
		Assignments: []pools.Assignment{{Key: pools.Key{PodUID: "u", Container: "app"}, CPUs: cpuset.Of(2)}, {Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(6)}},
		Idle:        cpuset.Of(7),
	}
	want := []desired.Owner{{Pod: "default/p", Name: "app", ID: "c", CPUs: cpuset.Of(2)}, {Name: "du.service", Unit: true, CPUs: cpuset.Of(6)}}
	m := inventory.New(cgroup.DriverSystemd)
	for _, id := range []string{"c", "d", "e"} {
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id}})
	}
	in := desired.Input{Settings: hostSettings(t, nodefixture.PoolsYAML, 8), Objects: m.Objects(), Originals: undo.Document{}.Journal().Originals, Build: func(pools.Input) pools.Plan { return plan }}
	got := in.Decide()
	if d := cmp.Diff(want, got.Owners, cmp.Comparer(cpuset.Set.Equal)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if got.Owned.String() != "2,6-7" {
		t.Errorf("owned CPUs %s; want 2,6-7", got.Owned)
	}
}
