package recovery_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/recovery"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestPodLevel checks that the CPUs of a pod with pod-level resources stay with the pod. Containers
// in the shared pool do not become owners.
func TestPodLevel(t *testing.T) {
	key := func(name string) pools.Key { return pools.Key{PodUID: "u", Container: name} }
	journal := []pools.Assignment{{Key: key(""), CPUs: cpuset.Range(4, 6), Sharers: []string{"a", "b"}, Total: 3}}
	for name, tc := range map[string]struct {
		pools   pools.Pools
		set     cpuset.Set // of both containers
		journal []pools.Assignment
		want    map[pools.Key]cpuset.Set
	}{
		"a list, journal": {fixedPools(), cpuset.Range(4, 6), journal, map[pools.Key]cpuset.Set{key(""): cpuset.Range(4, 6)}},
		"a list, the pod is young": {fixedPools(), cpuset.Range(4, 6), []pools.Assignment{{Key: key("ended"), CPUs: cpuset.Range(4, 6)}},
			map[pools.Key]cpuset.Set{key("ended"): cpuset.Range(4, 6)}},
		"a list":               {fixedPools(), cpuset.Range(4, 6), nil, map[pools.Key]cpuset.Set{key("a"): cpuset.Range(4, 6), key("b"): cpuset.Range(4, 6)}},
		"from shared, journal": {carvedPools(), cpuset.Range(4, 6), journal, map[pools.Key]cpuset.Set{key(""): cpuset.Range(4, 6)}},
		"from shared":          {carvedPools(), cpuset.Range(4, 6), nil, map[pools.Key]cpuset.Set{key("a"): cpuset.Range(4, 6), key("b"): cpuset.Range(4, 6)}},
		"in the shared pool":   {carvedPools(), cpuset.Range(2, 7), nil, map[pools.Key]cpuset.Set{}},
	} {
		t.Run(name, func(t *testing.T) {
			m := inventory.New(cgroup.DriverSystemd)
			const slice = "kubepods-podu.slice"
			m.PutPod(lookup.PodStatus{Pod: cri.Pod{ID: "p", UID: "u", Ready: true, CgroupParent: slice, CgroupsPath: slice + ":cri-containerd:p",
				Resources: nodefixture.WholeCPUs(3)}})
			states := map[cgroup.Path]cgroup.State{m.Objects().Pod("p").Pause: {CPUs: tc.pools.Shared.Difference(cpuset.Range(4, 6)), Quota: -1}}
			if tc.set.Equal(tc.pools.Shared) {
				states[m.Objects().Pod("p").Pause] = cgroup.State{CPUs: tc.set, Quota: -1}
			}
			for _, id := range []string{"a", "b"} {
				m.PutContainer(lookup.ContainerStatus{Container: cri.Container{ID: id, PodID: "p", Name: id, State: cri.Running,
					CgroupsPath: slice + ":cri-containerd:" + id, Requested: nodefixture.WholeCPUs(3), Recorded: cri.Resources{CPUs: tc.set.String()}}})
				states[m.Objects().Container(id).Path] = cgroup.State{CPUs: tc.set, Quota: -1}
			}
			got := make(map[pools.Key]cpuset.Set)
			sharers := 0
			for _, a := range recovery.Assignments(m.Objects(), func(p cgroup.Path) (cgroup.State, error) { return states[p], nil }, tc.journal, nil, &desired.Settings{Pools: tc.pools}) {
				got[a.Key] = a.CPUs
				sharers += len(a.Sharers)
			}
			if diff := cmp.Diff(tc.want, got, cmp.Comparer(cpuset.Set.Equal)); diff != "" || len(tc.journal) > 0 && len(tc.journal[0].Sharers) != sharers {
				t.Errorf("%d sharers, assignments (-want +got):\n%s", sharers, diff)
			}
		})
	}
}
