package desired_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostslices"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/systemd"
)

// TestAvailablePools checks which units and CPUs the planner gets.
func TestAvailablePools(t *testing.T) {
	const unit = "units: {du.service: {cpus: 2}}\n"
	du := lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Load: "loaded", Path: "system.slice/du.service"}}
	isolated := lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Load: "loaded", Path: "system.slice/du.service", Partition: "isolated"}}
	around := lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Load: "loaded", Path: "kubepods.slice"}}
	owned := []pools.Assignment{{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Of(4, 5)}}
	for name, c := range map[string]struct {
		yaml               string
		units              []lookup.UnitStatus
		previous           []pools.Assignment
		leaving, system    cpuset.Set
		hasUnit            bool
		guaranteed, shared string
		claims             string
	}{
		"described":               {yaml: unit, units: []lookup.UnitStatus{du}, hasUnit: true, guaranteed: "4-7", shared: "2-3"},
		"not described":           {yaml: unit, guaranteed: "4-7", shared: "2-3"},
		"not described, has CPU":  {yaml: unit, previous: owned, hasUnit: true, guaranteed: "4-7", shared: "2-3"},
		"contains pods":           {yaml: unit, units: []lookup.UnitStatus{around}, guaranteed: "4-7", shared: "2-3"},
		"a partition":             {yaml: unit, units: []lookup.UnitStatus{isolated}, previous: owned, guaranteed: "4-7", shared: "2-3"},
		"a unit leaves":           {leaving: cpuset.Of(3, 6), guaranteed: "4-5,7", shared: "2"},
		"a system partition":      {system: cpuset.Of(1, 4, 6), previous: []pools.Assignment{{CPUs: cpuset.Of(6)}}, guaranteed: "5-7", shared: "2-3"},
		"and a unit leaves":       {system: cpuset.Of(4), leaving: cpuset.Of(3, 6), guaranteed: "5,7", shared: "2"},
		"claims":                  {guaranteed: "3-4", shared: "2", claims: "5-7"},
		"system CPUs of claims":   {system: cpuset.Of(5, 6), previous: []pools.Assignment{{Key: pools.Key{Claim: "c"}, CPUs: cpuset.Of(6)}}, guaranteed: "3-4", shared: "2", claims: "6-7"},
		"a unit leaves to claims": {leaving: cpuset.Of(5), guaranteed: "3-4", shared: "2", claims: "6-7"},
		"from a whole pool":       {leaving: cpuset.Of(2, 3), guaranteed: "4-7", shared: "2-3"},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: "kubepods-podu.slice"}})
			for _, u := range c.units {
				m.PutUnit(u)
			}
			yaml := nodefixture.PoolsYAML + c.yaml
			if c.claims != "" {
				yaml = nodefixture.ClaimsYAML
			}
			var seen pools.Input
			in := desired.Input{
				Settings: hostSettings(t, yaml, 8), Objects: m.Objects(), Originals: undo.Document{}.Journal().Originals, Previous: c.previous, Leaving: c.leaving, System: c.system, Systemd: true,
				Build: func(in pools.Input) pools.Plan {
					seen = in
					return pools.Plan{}
				},
			}
			in.Decide()
			if got := seen.Pools; len(got.Units) == 1 != c.hasUnit || got.Guaranteed.String() != c.guaranteed || got.Shared.String() != c.shared ||
				got.Claims.CPUs.String() != c.claims {
				t.Errorf("units %v, guaranteed CPUs %s, shared CPUs %s, CPUs of claims %s", got.Units, got.Guaranteed, got.Shared, got.Claims.CPUs)
			}
		})
	}
}

// TestResting checks that resting CPUs return to the shared pool when an owner needs CPUs of it.
func TestResting(t *testing.T) {
	resting := cpuset.Of(4, 5)
	for name, c := range map[string]struct {
		assigned cpuset.Set
		rests    bool
	}{"owner on resting CPUs": {cpuset.Of(4), true}, "owner on shared CPUs": {cpuset.Of(6), false}} {
		in := desired.Input{
			Settings: hostSettings(t, nodefixture.CarvedYAML, 8), Objects: inventory.New(cgroup.DriverSystemd).Objects(), Originals: undo.Document{}.Journal().Originals, Resting: resting,
			Build: func(pools.Input) pools.Plan {
				return pools.Plan{Resting: resting, Assignments: []pools.Assignment{{CPUs: c.assigned}}}
			},
		}
		if d := in.Decide(); d.Input.Resting.IsEmpty() == c.rests {
			t.Errorf("%s: CPUs %s rest", name, d.Input.Resting)
		}
	}
}

// TestOwnership checks the audit's view of a plan.
func TestOwnership(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", CgroupsPath: "kubepods-podu.slice:cri-containerd:c"}})
	m.PutUnit(lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Load: "loaded", Path: "system.slice/du.service"}})
	plan := pools.Plan{
		Pods: []pools.PodPlan{{UID: "u", Namespace: "default", Name: "p", Containers: []pools.Placement{
			{ID: "c", Name: "app", Pool: pools.Other, Exclusive: true, CPUs: cpuset.Of(3)}, {ID: "d", Name: "ended", CPUs: cpuset.Of(2), State: pools.Exited},
		}}},
		Units:  []pools.UnitPlan{{Name: "du.service", Pool: pools.Guaranteed, Exclusive: true, CPUs: cpuset.Of(4)}, {Name: "gone.service", Pool: pools.Guaranteed, CPUs: cpuset.Of(5)}},
		Shared: cpuset.Of(2),
	}
	hosts := []hostslices.Verdict{{Name: "system.slice", Path: "system.slice", State: hostslices.Confined, CPUs: cpuset.Of(0, 1)}, {Name: "user.slice", Path: "user.slice", State: hostslices.Foreign, CPUs: cpuset.Of(0)}}
	s := desired.Settings{
		Config: &config.Config{HostSlices: config.HostSlices{Pool: "management"}},
		Pools:  pools.Pools{Guaranteed: cpuset.Range(4, 7), Shared: cpuset.Range(2, 3), Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Of(0, 1)}}},
	}
	s.Config.Pools.Partitions = []poolspec.Partition{{Type: "management"}}
	guaranteed, management := audit.PoolName{Pool: string(pools.Guaranteed)}, audit.PoolName{Pool: string(pools.Management), Type: "management"}
	aux := []inspect.Auxiliary{
		{Cgroup: "kubepods.slice/kubepods-podu.slice/crio-conmon-c.scope", Kind: "monitor", Pod: "default/p", Pool: pools.Shared, CPUs: cpuset.Of(2)},
		{Cgroup: "kubepods.slice/kubepods-podu.slice/kata_p", Kind: "sandbox", Pod: "default/p", Pool: pools.Guaranteed, CPUs: cpuset.Of(2, 3), Mixed: cpuset.Of(2), Exclusive: true},
	}
	want := audit.Ownership{
		Places: []audit.Place{
			{PoolName: guaranteed, Pod: "default/p", Name: "app", Cgroup: "kubepods.slice/kubepods-podu.slice/cri-containerd-c.scope", CPUs: cpuset.Of(3), Exclusive: true},
			{PoolName: audit.PoolName{Pool: string(pools.Shared)}, Pod: "default/p", Name: "(monitor)", Cgroup: aux[0].Cgroup, CPUs: cpuset.Of(2)},
			{PoolName: guaranteed, Pod: "default/p", Name: "(sandbox)", Cgroup: aux[1].Cgroup, CPUs: cpuset.Of(3), Mixed: cpuset.Of(2), Exclusive: true},
			{PoolName: guaranteed, Name: "du.service", Cgroup: "system.slice/du.service", CPUs: cpuset.Of(4), Exclusive: true},
			{PoolName: management, Name: "system.slice", Cgroup: "system.slice", CPUs: cpuset.Of(0, 1)},
		},
		Pools: []audit.Pool{{PoolName: guaranteed, CPUs: cpuset.Range(3, 7)}, {PoolName: management, CPUs: cpuset.Of(0, 1)}, {PoolName: audit.PoolName{Pool: string(pools.Shared)}, CPUs: cpuset.Of(2)}},
	}
	if d := cmp.Diff(want, s.Ownership(plan, m.Objects(), hosts, aux), cmp.Comparer(cpuset.Set.Equal)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestOwnershipOfClaims checks that a foreign task on the CPUs of a ResourceClaim is found, and that
// containers that share a claim are not foreign to each other.
func TestOwnershipOfClaims(t *testing.T) {
	m := inventory.New(cgroup.DriverSystemd)
	for _, id := range []string{"a", "b", "c"} {
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: id, CgroupsPath: "kubepods-podu.slice:cri-containerd:" + id}})
	}
	plan := pools.Plan{Shared: cpuset.Of(2), Pods: []pools.PodPlan{{UID: "u", Namespace: "default", Name: "p", Containers: []pools.Placement{
		{ID: "a", Name: "a", Pool: pools.Guaranteed, CPUs: cpuset.Range(5, 6), Claims: []string{"both", "own"}},
		{ID: "b", Name: "b", Pool: pools.Guaranteed, CPUs: cpuset.Of(5), Claims: []string{"both"}},
		{ID: "c", Name: "c", Pool: pools.Shared, CPUs: cpuset.Of(2)},
	}}}}
	s := hostSettings(t, nodefixture.ClaimsYAML, 8)
	o := s.Ownership(plan, m.Objects(), nil, nil)
	if got := o.Pools[0]; got.Pool != "guaranteed" || got.CPUs.String() != "3-7" {
		t.Errorf("pool %+v; want the guaranteed pool with the CPUs for claims", got)
	}
	var e audit.Evidence
	for id, cpus := range map[string]cpuset.Set{"a": cpuset.Range(5, 6), "b": cpuset.Of(5), "c": cpuset.Of(2, 5, 7)} {
		at := "kubepods.slice/kubepods-podu.slice/cri-containerd-" + id + ".scope"
		e.Tasks = append(e.Tasks, audit.Task{Reading: audit.Reading{TID: int(id[0]), Comm: id}, PID: int(id[0]), Leader: id, Cgroup: at, Allowed: cpus})
	}
	found := make(map[string]string)
	for _, f := range audit.Evaluate(o, e).Findings {
		found[f.Container+" on "+f.Owner.Pod] = f.Allowed.String()
	}
	if d := cmp.Diff(map[string]string{"c on default/p": "5", "c on ": "7"}, found); d != "" {
		t.Errorf("foreign tasks (-want +got):\n%s", d)
	}
}

// TestCPUsOfSettings checks the sets of CPUs that settings return.
func TestCPUsOfSettings(t *testing.T) {
	fixed, carved := hostSettings(t, nodefixture.PoolsYAML, 6), hostSettings(t, nodefixture.CarvedYAML, 8)
	claims := hostSettings(t, nodefixture.ClaimsYAML, 8)
	for name, c := range map[string]struct {
		got  cpuset.Set
		want string
	}{
		"offline":           {fixed.Offline(), ""},
		"housekeeping":      {fixed.Housekeeping(), "0-3"},
		"ownable":           {fixed.Ownable(), "4-5"},
		"ownable of shared": {carved.Ownable(), "2-7"},
		"ownable by claims": {claims.Ownable(), "3-7"},
		"nodes":             {carved.Nodes(cpuset.Of(3)), "0"},
		"nodes of no CPU":   {carved.Nodes(cpuset.Set{}), ""},
		"online":            {carved.TuneMachine(cpuset.Range(0, 15)).Online, "0-7"},
	} {
		if c.got.String() != c.want {
			t.Errorf("%s: %s; want %q", name, c.got, c.want)
		}
	}
}

// TestTotalsOfJournal checks the total of a pod if the runtime does not report one. The
// planner gets the quota of the slice in the journal, because the daemon has removed it.
func TestTotalsOfJournal(t *testing.T) {
	for value, want := range map[string]pools.Resources{
		"400000 100000": {Shares: 4096, Quota: 400_000, Period: 100_000},
		"max 100000":    {},
		"":              {},
	} {
		m := inventory.New(cgroup.DriverSystemd)
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: "kubepods-podu.slice"}})
		journal := undo.Document{}.Journal()
		if value != "" {
			journal.Originals.Note(undo.Original{Path: "kubepods.slice/kubepods-podu.slice", File: cgroup.FileMax, Value: value})
		}
		var got []pools.Pod
		in := desired.Input{
			Settings: hostSettings(t, nodefixture.PoolsYAML, 8), Objects: m.Objects(), Originals: journal.Originals, Pods: m.Objects().Input(time.Now()),
			Build: func(in pools.Input) pools.Plan {
				got = in.Pods
				return pools.Plan{}
			},
		}
		in.Decide()
		if len(got) != 1 || got[0].Resources != want {
			t.Errorf("%q: the planner gets %+v; want the total %+v", value, got, want)
		}
	}
}
