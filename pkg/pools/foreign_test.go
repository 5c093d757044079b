package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// foreignNode has CPUs 0-1 for management, 2-3 shared and 4-7 guaranteed, with an owner
// of two whole CPUs and a container that another manager places.
func foreignNode(theirs pools.Foreign) pools.Input {
	guaranteed := func(uid string, at int64, foreign *pools.Foreign) pools.Pod {
		return pools.Pod{UID: uid, Namespace: "default", Name: uid, QoS: pools.QoSGuaranteed, Settled: true, Containers: []pools.Container{
			{ID: uid + "-1", Name: "app", State: pools.Running, CreatedAt: at, Resources: pools.Resources{Shares: 2048}, Foreign: foreign},
		}}
	}
	return pools.Input{
		Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()),
		Pools: pools.Pools{
			Partitions: []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 1), Namespaces: []string{"kube-system"}}},
			Shared:     cpuset.Range(2, 3), Guaranteed: cpuset.Range(4, 7),
		},
		Pods: []pools.Pod{guaranteed("ours", 1, nil), guaranteed("theirs", 2, &theirs)},
	}
}

// TestForeign checks that containers of another manager do not change and count as its
// own.
func TestForeign(t *testing.T) {
	ours := []pools.Assignment{{Key: pools.Key{PodUID: "ours", Container: "app"}, CPUs: cpuset.Range(4, 5)}}
	for name, c := range map[string]struct {
		theirs       pools.Foreign
		change       func(*pools.Input)
		owner        string // its CPUs
		shared, free string
		problems     []pools.Code
	}{
		"no container gets its CPUs": {
			theirs: pools.Foreign{CPUs: cpuset.Range(4, 5)}, owner: "6-7", shared: "2-3", free: "",
		},
		"nor when it is all there is": {
			theirs: pools.Foreign{CPUs: cpuset.Range(4, 6)}, owner: "", shared: "2-3", free: "7", problems: []pools.Code{pools.CodeRefused},
		},
		"an owner that was there stays": {
			theirs: pools.Foreign{CPUs: cpuset.Range(4, 5)}, change: func(in *pools.Input) { in.Previous = ours },
			owner: "4-5", shared: "2-3", free: "6-7", problems: []pools.Code{pools.CodeOtherOverlap},
		},
		"pools do without what it has alone": {
			theirs: pools.Foreign{CPUs: cpuset.Range(3, 4), Alone: true}, change: func(in *pools.Input) { in.Previous = nil },
			owner: "5-6", shared: "2", free: "7",
		},
		"no pool is empty for it": {
			theirs: pools.Foreign{CPUs: cpuset.Range(2, 3), Alone: true}, owner: "4-5", shared: "2-3", free: "6-7",
			problems: []pools.Code{pools.CodeOtherOverlap},
		},
		"an overlap with an owner is reported": {
			theirs: pools.Foreign{Runs: cpuset.Range(0, 7)}, owner: "4-5", shared: "2-3", free: "6-7",
			problems: []pools.Code{pools.CodeOtherOverlap},
		},
		"one that runs anywhere takes nothing": {
			theirs: pools.Foreign{}, owner: "4-5", shared: "2-3", free: "6-7",
		},
		"its former CPUs belong to the other manager": {
			theirs: pools.Foreign{CPUs: cpuset.Range(4, 5)},
			change: func(in *pools.Input) {
				in.Previous = []pools.Assignment{{Key: pools.Key{PodUID: "theirs", Container: "app"}, CPUs: cpuset.Range(4, 5)}}
			},
			owner: "6-7", shared: "2-3", free: "",
		},
		"one that has ended holds nothing": {
			theirs: pools.Foreign{CPUs: cpuset.Range(4, 5)},
			change: func(in *pools.Input) { in.Pods[1].Containers[0].State = pools.Exited },
			owner:  "4-5", shared: "2-3", free: "6-7",
		},
		"its pod's requests do not count": {
			theirs: pools.Foreign{CPUs: cpuset.Range(0, 1)},
			change: func(in *pools.Input) {
				in.Pods[1].QoS = pools.QoSBurstable
				in.Pods[1].Annotations = map[string]string{workload.Names{}.TargetKey("unknown"): `{"effect":"PreferredDuringScheduling"}`}
			},
			owner: "4-5", shared: "2-3", free: "6-7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.theirs.Manager = "somebody"
			in := foreignNode(c.theirs)
			if c.change != nil {
				c.change(&in)
			}
			p := checkedBuild(t, in)
			if p.Shared.String() != c.shared || p.Free.String() != c.free {
				t.Errorf("shared are %q and free %q; want %q and %q", p.Shared, p.Free, c.shared, c.free)
			}
			owner := ""
			for _, a := range p.Assignments {
				owner += a.CPUs.String()
			}
			if owner != c.owner {
				t.Errorf("the owner has %q, want %q", owner, c.owner)
			}
			theirs := p.Pods[1].Containers[0]
			if theirs.Pool != pools.Other || !theirs.CPUs.Equal(c.theirs.CPUs) || theirs.Exclusive || theirs.Unlimited || p.Pods[1].Unlimited || p.Pods[1].Shares != 0 {
				t.Errorf("foreign container = %+v in %+v; want it unchanged", theirs, p.Pods[1])
			}
			if want := "placed by somebody; cpupoold does not change it"; theirs.Reason.Text != want || theirs.Reason.Code != pools.CodeOtherManager {
				t.Errorf("reason %v, want %s", theirs.Reason, want)
			}
			var codes []pools.Code
			for _, problem := range p.Problems {
				codes = append(codes, problem.Code)
			}
			if len(codes) != len(c.problems) || len(codes) > 0 && codes[0] != c.problems[0] {
				t.Errorf("problems %v, want %v", p.Problems, c.problems)
			}
		})
	}
}

// TestForeignWithOwners checks that only the other manager's containers keep their CPUs.
func TestForeignWithOwners(t *testing.T) {
	in := foreignNode(pools.Foreign{Manager: "somebody", CPUs: cpuset.Range(4, 5)})
	in.Pods[1].Containers = append(in.Pods[1].Containers,
		pools.Container{ID: "sandbox", Name: "POD", Kind: pools.Infra, State: pools.Running},
		pools.Container{ID: "beside", Name: "beside", State: pools.Running, CreatedAt: 3, Resources: pools.Resources{Shares: 512}})
	p := checkedBuild(t, in)
	want := map[string]pools.Pool{"POD": pools.Shared, "app": pools.Other, "beside": pools.Shared}
	for _, c := range p.Pods[1].Containers {
		if c.Pool != want[c.Name] {
			t.Errorf("container %s is in pool %s, want %s", c.Name, c.Pool, want[c.Name])
		}
	}
}
