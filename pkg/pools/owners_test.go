package pools_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

func TestOwners(t *testing.T) {
	top := hardware.Machine{Packages: 1, Nodes: 2, L3s: 1, Cores: 4, Threads: 2, Adjacent: true}.Topology()
	two := pools.Resources{Shares: 2048, Quota: 200000, Period: 100000}
	ctr := func(name string, state pools.ContainerState) pools.Container {
		return pools.Container{ID: name, Name: name, State: state, Resources: two, Nodes: cpuset.Of(1)}
	}
	in := pools.Input{
		Machine: allocate.New(top),
		Names:   workload.Names{Domain: "workload.openshift.io"},
		Pools: pools.Pools{
			Shared: cpuset.Range(0, 1), Guaranteed: cpuset.Range(2, 15), Overrides: []string{"full-pcpus-only"},
			Units: []pools.UnitSpec{{Name: "du.service", CPUs: 2}},
		},
		Pods: []pools.Pod{
			{UID: "a", Namespace: "default", Name: "runs", QoS: pools.QoSGuaranteed, Annotations: map[string]string{"cpupoold.io/full-pcpus-only": "true"},
				Containers: []pools.Container{ctr("app", pools.Running)}},
			{UID: "b", Namespace: "default", Name: "does-not", QoS: pools.QoSGuaranteed, Resources: pools.Resources{Shares: 8 * 1024},
				Containers: []pools.Container{ctr("made", pools.Created), ctr("over", pools.Exited)}},
		},
		Previous: []pools.Assignment{
			{Key: pools.Key{PodUID: "a", Container: "app"}, CPUs: cpuset.Range(10, 11)},
			{Key: pools.Key{PodUID: "b", Container: "absent"}, CPUs: cpuset.Of(7)},
			{Key: pools.Key{PodUID: "b", Container: "over"}, CPUs: cpuset.Range(12, 13)},
		},
	}
	plan := pools.Build(in)
	got := make(map[string]pools.Owner)
	for _, o := range pools.Owners(in, plan) {
		o.CPUs = cpuset.Set{} // the plan's, which other tests are about
		got[o.Key.PodUID+"/"+o.Key.Container] = o
	}
	nodes := cpuset.Of(1)
	want := map[string]pools.Owner{
		"/du.service": {Key: pools.Key{Container: "du.service"}},
		"a/app":       {Key: pools.Key{PodUID: "a", Container: "app"}, Pod: "default/runs", Options: allocate.Options{FullPCPUsOnly: true}, Nodes: nodes},
		"b/made":      {Key: pools.Key{PodUID: "b", Container: "made"}, Pod: "default/does-not", Nodes: nodes, Fixed: "is being started"},
		"b/over": {Key: pools.Key{PodUID: "b", Container: "over"}, Pod: "default/does-not", Nodes: nodes,
			Fixed: "has exited; its CPUs are held for its restart, and the runtime has recorded them"},
		"b/absent": {Key: pools.Key{PodUID: "b", Container: "absent"}, Pod: "default/does-not", Fixed: "no container of this name exists; the CPUs are held for it"},
		"b/":       {Key: pools.Key{PodUID: "b"}, Pod: "default/does-not", Fixed: "reserved for later containers of the pod"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}
