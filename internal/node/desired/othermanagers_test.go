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
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

const batchAnnotation = "example.com/batch"

// batch is a configuration of CRI-O with a workload.
var batch = managers.CRIO{Workloads: []managers.Workload{{Name: "batch", Source: "99-batch.conf", Activation: batchAnnotation, Pins: true}}}

// refuse is a configuration without other managers.
var refuse = config.OtherManagers{CRIOWorkloads: config.StanceRefuse, CRIOHighPerformance: config.StanceRefuse, NRIPlugins: config.StanceRefuse}

// batchNode returns a node with the containers batch, of CRI-O's workload, and app.
func batchNode() *inventory.Inventory {
	m := inventory.New(cgroup.DriverSystemd)
	for name, annotations := range map[string]map[string]string{"batch": {batchAnnotation: ""}, "app": nil} {
		slice := "kubepods-pod" + name + ".slice"
		m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p-" + name, UID: name, Name: name, Namespace: "default", Ready: true, CgroupParent: slice, Annotations: annotations}})
		m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: name, PodID: "p-" + name, Name: name, State: cri.Running, CgroupsPath: slice + ":crio:" + name}})
	}
	return m
}

// TestLearn checks the placements and the problems after a series of configurations of CRI-O.
func TestLearn(t *testing.T) {
	none := managers.CRIO{}
	torn := managers.CRIO{Unreadable: []managers.FileError{{Name: "crio.conf", Err: errors.New("expected a value")}}}
	for name, c := range map[string]struct {
		learned  []managers.CRIO
		stance   config.OtherManagers
		placed   bool
		problems []string // a part of each
	}{
		"none":                  {learned: []managers.CRIO{none}, stance: refuse},
		"workload":              {learned: []managers.CRIO{batch}, stance: refuse, placed: true, problems: []string{"CRI-O's workload batch (99-batch.conf) places containers, too (1 at"}},
		"workload, stand down":  {learned: []managers.CRIO{batch}, stance: config.OtherManagers{CRIOWorkloads: config.StanceStandDown}, placed: true},
		"no longer configured":  {learned: []managers.CRIO{batch, none}, stance: refuse, placed: true, problems: []string{"is no longer configured"}},
		"torn file":             {learned: []managers.CRIO{torn}, stance: refuse, problems: []string{"crio.conf cannot be parsed"}},
		"torn file, then":       {learned: []managers.CRIO{batch, torn}, stance: refuse, placed: true, problems: []string{"places containers, too (1 at", "crio.conf cannot be parsed"}},
		"missing for some time": {learned: []managers.CRIO{batch, none, batch}, stance: refuse, placed: true, problems: []string{"places containers, too (1 at"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := batchNode()
			var o desired.OtherManagers
			for _, crio := range c.learned {
				o.Learn(crio, m.Objects())
			}
			if got := o.Places(m.Objects().Container("batch")); got != c.placed || o.Places(m.Objects().Container("app")) {
				t.Errorf("batch is placed: %t; app is placed: %t", got, o.Places(m.Objects().Container("app")))
			}
			if paths := o.Cgroups(m.Objects()); paths[m.Objects().Container("batch").Path] != c.placed || paths[m.Objects().Container("app").Path] {
				t.Errorf("placed cgroups: %v", paths)
			}
			got := o.Problems(m.Objects(), &desired.Settings{Config: &config.Config{OtherManagers: c.stance}})
			if len(got) != len(c.problems) {
				t.Fatalf("problems %v; want %q", got, c.problems)
			}
			for i, part := range c.problems {
				if got[i].Code != pools.CodeOtherManager || !strings.Contains(got[i].Text, part) {
					t.Errorf("problem %+v; want %q in it", got[i], part)
				}
			}
		})
	}
}

// TestPlugin checks the placing of a container that came to NRI with CPUs.
func TestPlugin(t *testing.T) {
	m := batchNode()
	pod := cri.Pod{ID: "p-new", UID: "new", Name: "new", Namespace: "default", Ready: true, CgroupParent: "kubepods-podnew.slice"}
	placed := m.Expect(pod, cri.Container{ID: "new", PodID: "p-new", Name: "app", Requested: cri.Resources{CPUs: "4-5"}}, false)
	var o desired.OtherManagers
	if !o.Places(placed) {
		t.Error("not placed")
	}
	got := o.Problems(m.Objects(), &desired.Settings{Config: &config.Config{OtherManagers: refuse}})
	if len(got) != 1 || !strings.Contains(got[0].Text, "another NRI plugin or a static kubelet") || !strings.Contains(got[0].Text, "otherManagers.nriPlugins: standDown") {
		t.Errorf("problems %v", got)
	}
}

// TestNewPlacings checks that each placed container is returned once.
func TestNewPlacings(t *testing.T) {
	m := batchNode()
	o := desired.NewOtherManagers(batch)
	names := func() (all []string) {
		for c, placing := range o.NewPlacings(m.Objects()) {
			all = append(all, c.Container.Name+" "+string(placing.Kind))
		}
		return all
	}
	if d := cmp.Diff([]string{"batch crioWorkloads"}, names()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if again := names(); len(again) > 0 {
		t.Errorf("returned again: %v", again)
	}
}

// TestMayPlace checks in which slices the daemon does not write before the runtime describes
// a container.
func TestMayPlace(t *testing.T) {
	m := batchNode()
	for name, c := range map[string]struct {
		crio  managers.CRIO
		slice cgroup.Path
		want  bool
	}{
		"pod of the workload":    {batch, m.Objects().Pod("p-batch").Slice, true},
		"another pod":            {batch, m.Objects().Pod("p-app").Slice, false},
		"unknown pod":            {batch, "kubepods-podx.slice", true},
		"unknown, no CRI-O":      {managers.CRIO{}, "kubepods-podx.slice", false},
		"of a workload, removed": {managers.CRIO{}, m.Objects().Pod("p-batch").Slice, false},
	} {
		o := desired.NewOtherManagers(c.crio)
		if got := o.MayPlace(m.Objects(), c.slice); got != c.want {
			t.Errorf("%s: %t; want %t", name, got, c.want)
		}
	}
}

// TestMark checks the CPUs of placed containers in the planner's input.
func TestMark(t *testing.T) {
	m := batchNode()
	o := desired.NewOtherManagers(batch)
	pods := []pools.Pod{{UID: "batch", Containers: []pools.Container{{ID: "batch"}, {ID: "unknown"}}}, {UID: "app", Containers: []pools.Container{{ID: "app"}}}}
	o.Mark(m.Objects(), pods, onEightCPUs(config.SystemPartitionAuto), func(p cgroup.Path) (cgroup.State, error) {
		return cgroup.State{Path: p, CPUs: cpuset.Of(4, 5), Effective: cpuset.Of(4, 5)}, nil
	})
	f := pods[0].Containers[0].Foreign
	if f == nil || f.CPUs.String() != "4-5" || pods[0].Containers[1].Foreign != nil || pods[1].Containers[0].Foreign != nil {
		t.Errorf("marked %+v, %+v, %+v", f, pods[0].Containers[1].Foreign, pods[1].Containers[0].Foreign)
	}
}
