package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/formula"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/systemd"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// TestTargets checks the targets of one container, its pod and a unit.
func TestTargets(t *testing.T) {
	const (
		parent = "kubepods-podu.slice"
		slice  = cgroup.Path("kubepods.slice/" + parent)
		scope  = slice + "/cri-containerd-c.scope"
		pause  = slice + "/cri-containerd-p.scope"
		unit   = cgroup.Path("system.slice/du.service")
	)
	wrote := func(p cgroup.Path, file, value string) undo.Document {
		return undo.Document{Originals: []undo.Original{{Path: p, File: file, Container: "c", Value: value}}}
	}
	placed := func(change func(*pools.Placement)) pools.Plan {
		c := pools.Placement{ID: "c", Name: "app", Pool: pools.Guaranteed, State: pools.Running, CPUs: cpuset.Of(4), Exclusive: true, Unlimited: true, Shares: 512}
		change(&c)
		return pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: []pools.Placement{c}}}}
	}
	exclusive := cgroup.Target{Path: scope, Container: "c", CPUs: cpuset.Of(4), Exclusive: true, Weight: 59, Unlimited: true}
	shared := cgroup.Target{Path: scope, Container: "c", CPUs: cpuset.Of(2), Weight: 59}
	inShared := func(c *pools.Placement) {
		c.Pool, c.CPUs, c.Exclusive, c.Unlimited = pools.Shared, cpuset.Of(2), false, false
	}
	with := func(t cgroup.Target, change func(*cgroup.Target)) []cgroup.Target {
		change(&t)
		return []cgroup.Target{t}
	}
	foreign := []pools.Placement{{ID: "c", Pool: pools.Other}} // has no target
	for name, c := range map[string]struct {
		plan         pools.Plan
		sliceWeights bool
		journal      undo.Document
		want         []cgroup.Target
	}{
		"exclusive": {plan: placed(func(*pools.Placement) {}), want: []cgroup.Target{exclusive}},
		// Systemd and the OCI runtime would both attach the scope's device program.
		"being made":         {plan: placed(func(c *pools.Placement) { c.State = pools.Created }), want: with(exclusive, func(t *cgroup.Target) { t.Weight, t.Unlimited = 0, false })},
		"exited":             {plan: placed(func(c *pools.Placement) { c.State = pools.Exited })},
		"of another manager": {plan: placed(func(c *pools.Placement) { c.Pool = pools.Other })},
		"shared":             {plan: placed(inShared), want: []cgroup.Target{shared}},
		"shared, quota of the kubelet": {plan: placed(func(c *pools.Placement) {
			inShared(c)
			c.Quota, c.Period = 50_000, 100_000
		}), want: []cgroup.Target{shared}},
		"shared, lifted quota": {plan: placed(func(c *pools.Placement) {
			inShared(c)
			c.Quota, c.Period = 50_000, 100_000
		}), journal: wrote(scope, cgroup.FileMax, "50000 100000"), want: with(shared, func(t *cgroup.Target) { t.Quota, t.Period = 50_000, 100_000 })},
		"limit in an annotation": {plan: placed(func(c *pools.Placement) {
			inShared(c)
			c.Limit = 250
		}), want: with(shared, func(t *cgroup.Target) { t.Quota, t.Period = 25_000, 100_000 })},
		"memory was bound":          {plan: placed(inShared), journal: wrote(scope, cgroup.FileMems, "0-1"), want: with(shared, func(t *cgroup.Target) { t.Mems = cpuset.Of(0, 1) })},
		"memory was bound, no list": {plan: placed(inShared), journal: wrote(scope, cgroup.FileMems, ""), want: with(shared, func(t *cgroup.Target) { t.Mems = cpuset.Of(0, 1, 2, 3) })},
		"pause container": {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: []pools.Placement{{ID: "p", Kind: pools.Infra, Pool: pools.Shared, CPUs: cpuset.Of(2)}}}}},
			want: []cgroup.Target{{Path: pause, CPUs: cpuset.Of(2)}}},
		"pod without weights":       {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: foreign, Shares: 1024}}}},
		"pod with weights":          {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: foreign, Shares: 1024}}}, sliceWeights: true, want: []cgroup.Target{{Path: slice, Weight: cgroup.WeightLinear(1024)}}},
		"pod without a quota":       {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: foreign, Unlimited: true}}}, want: []cgroup.Target{{Path: slice, Unlimited: true}}},
		"pod, quota of the kubelet": {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: foreign, Quota: 50_000, Period: 100_000}}}},
		"pod, lifted quota": {plan: pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: foreign, Quota: 50_000, Period: 100_000}}}, journal: wrote(slice, cgroup.FileMax, "50000 100000"),
			want: []cgroup.Target{{Path: slice, Quota: 50_000, Period: 100_000}}},
		"unit":                 {plan: pools.Plan{Units: []pools.UnitPlan{{Name: "du.service", CPUs: cpuset.Of(6), Exclusive: true}}}, want: []cgroup.Target{{Path: unit, Unit: "du.service", CPUs: cpuset.Of(6), Exclusive: true}}},
		"unit that is missing": {plan: pools.Plan{Units: []pools.UnitPlan{{Name: "gone.service", CPUs: cpuset.Of(6)}}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: parent, CgroupsPath: parent + ":cri-containerd:p"}})
			m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: "c", PodID: "p", Name: "app", State: cri.Running, CgroupsPath: parent + ":cri-containerd:c"}})
			m.PutUnit(lookup.UnitStatus{Name: "du.service", Unit: systemd.Unit{Name: "du.service", Load: "loaded", Path: unit}})
			m.PutUnit(lookup.UnitStatus{Name: "gone.service", Unit: systemd.Unit{Name: "gone.service", Load: "not-found", Path: "system.slice/gone.service"}})
			in := desired.Input{
				Settings: desired.Settings{Config: &config.Config{PodSliceWeights: c.sliceWeights}},
				Objects:  m.Objects(), Formula: formula.New(config.WeightQuadratic), Originals: c.journal.Journal().Originals, Nodes: cpuset.Range(0, 3),
			}
			if d := cmp.Diff(c.want, in.Targets(c.plan), cmp.Comparer(cpuset.Set.Equal), cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestSliceCPUs checks which CPUs the slice of a pod gets during and after a write conflict of a
// container, and that it gets none otherwise.
func TestSliceCPUs(t *testing.T) {
	const (
		parent = "kubepods-podu.slice"
		slice  = cgroup.Path("kubepods.slice/" + parent)
		attack = slice + "/cri-containerd-c.scope"
		pause  = slice + "/cri-containerd-p.scope"
	)
	original := func(value string) undo.Document {
		return undo.Document{Originals: []undo.Original{{Path: slice, File: cgroup.FileCPUs, Value: value}}}
	}
	attacker := pools.Placement{ID: "c", Pool: pools.Shared, State: pools.Running, CPUs: cpuset.Of(2, 3)}
	owner := pools.Placement{ID: "d", Pool: pools.Guaranteed, State: pools.Running, CPUs: cpuset.Of(4, 5), Exclusive: true}
	with := func(c pools.Placement, change func(*pools.Placement)) pools.Placement {
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		containers []pools.Placement
		contested  cgroup.Path
		journal    undo.Document
		want       cpuset.Set
	}{
		"no conflict":                         {containers: []pools.Placement{attacker, owner}},
		"conflict elsewhere":                  {containers: []pools.Placement{attacker, owner}, contested: "kubepods.slice/kubepods-podv.slice/cri-containerd-e.scope"},
		"conflict":                            {containers: []pools.Placement{attacker}, contested: attack, want: cpuset.Of(2, 3)},
		"conflict beside an owner":            {containers: []pools.Placement{attacker, owner}, contested: attack, want: cpuset.Range(2, 5)},
		"conflict of a pause":                 {containers: []pools.Placement{{ID: "p", Kind: pools.Infra, Pool: pools.Shared, CPUs: cpuset.Of(2)}, owner}, contested: pause, want: cpuset.Of(2, 4, 5)},
		"owner that shares CPUs":              {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.Mixed = cpuset.Of(1) })}, contested: attack, want: cpuset.Range(1, 5)},
		"container that is being made":        {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.State = pools.Created })}, contested: attack, want: cpuset.Range(2, 5)},
		"owner that has exited":               {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.State = pools.Exited })}, contested: attack, want: cpuset.Of(2, 3)},
		"attacker that has exited":            {containers: []pools.Placement{with(attacker, func(c *pools.Placement) { c.State = pools.Exited }), owner}, contested: attack},
		"container of another manager":        {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.Pool = pools.Other })}, contested: attack, journal: original(""), want: cpuset.Range(0, 7)},
		"container that is not read":          {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.Unread = true })}, contested: attack, journal: original(""), want: cpuset.Range(0, 7)},
		"unread before the slice was written": {containers: []pools.Placement{attacker, with(owner, func(c *pools.Placement) { c.Unread = true })}, contested: attack},
		"after the conflict, damaged journal": {containers: []pools.Placement{attacker, owner}, journal: original("x"), want: cpuset.Range(0, 7)},
		"after the conflict":                  {containers: []pools.Placement{attacker, owner}, journal: original(""), want: cpuset.Range(0, 7)},
		"after the conflict, had CPUs":        {containers: []pools.Placement{attacker, owner}, journal: original("1-6"), want: cpuset.Range(1, 6)},
		"again":                               {containers: []pools.Placement{attacker}, contested: attack, journal: original(""), want: cpuset.Of(2, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: parent, CgroupsPath: parent + ":cri-containerd:p"}})
			for _, id := range []string{"c", "d"} {
				m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running, Detailed: true, CgroupsPath: parent + ":cri-containerd:" + id}})
			}
			in := desired.Input{
				Settings: desired.Settings{Config: &config.Config{}, Topology: &topology.Topology{Possible: cpuset.Range(0, 7)}},
				Objects:  m.Objects(), Formula: formula.New(config.WeightQuadratic), Originals: c.journal.Journal().Originals,
			}
			if c.contested != "" {
				in.Contested = func(p cgroup.Path) bool { return p == c.contested }
			}
			var got cpuset.Set
			for _, target := range in.Targets(pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: c.containers}}}) {
				if target.Path == slice {
					if got = target.CPUs; !target.Confines() {
						t.Errorf("%+v is no slice around containers", target)
					}
				}
			}
			if !got.Equal(c.want) {
				t.Errorf("the slice gets CPUs %q; want %q", got, c.want)
			}
		})
	}
}
