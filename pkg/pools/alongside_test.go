package pools_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestAlongside lets nodes live, and places each of their pods alongside the others after each step.
func TestAlongside(t *testing.T) { steps(t, 4, 20, checkAlongside) }

// TestAlongsideReserve lets nodes with `from: shared` live. The CPUs of each pod are reserved before it
// has a container.
func TestAlongsideReserve(t *testing.T) { steps(t, 4, 2, checkReserved) }

// checkReserved checks like checkAlongside pods that were planned before their containers. It returns
// the number of such pods with exclusive CPUs.
func checkReserved(t *testing.T, in pools.Input, _ pools.Plan, now pools.Input) (placed int) {
	t.Helper()
	if !in.Pools.FromShared {
		return 0
	}
	for _, p := range guaranteed(now.Pods) {
		if slices.ContainsFunc(in.Pods, func(o pools.Pod) bool { return o.UID == p.UID }) {
			continue
		}
		sandbox := p
		sandbox.Containers = nil
		earlier := in
		earlier.Pods = append(slices.Clone(in.Pods), sandbox)
		before := pools.Build(earlier)
		earlier.Previous = before.Assignments
		_, _, ok := pools.Alongside(&earlier, &before, p)
		if ok && !pools.Assigned(before.Assignments, pools.Key{PodUID: p.UID}).IsEmpty() {
			placed++
		}
		now.Pods = []pools.Pod{p}
		checkAlongside(t, earlier, before, now)
	}
	return placed
}

// checkAlongside checks that pods placed alongside the others get the results of a full plan, and
// that all others keep theirs. It returns the number of such pods.
func checkAlongside(t *testing.T, in pools.Input, before pools.Plan, now pools.Input) (placed int) {
	t.Helper()
	in.Pods = slices.SortedFunc(slices.Values(in.Pods), func(a, b pools.Pod) int { return strings.Compare(a.UID, b.UID) })
	equal := cmp.Options{cmp.Comparer(cpuset.Set.Equal), cmpopts.EquateEmpty()}
	untouched := format(before)
	for _, p := range slices.Concat(now.Pods, guaranteed(now.Pods)) {
		got, assigned, ok := pools.Alongside(&in, &before, p)
		if !ok {
			continue
		}
		placed++
		whole, want := wholeWith(in, before, p)
		if d := cmp.Diff(want, got, equal); d != "" {
			t.Errorf("%s (-whole +alongside):\n%s", p.UID, d)
		}
		if d := cmp.Diff(whole.Assignments, assigned, equal); d != "" {
			t.Errorf("%s: assignments (-whole +alongside):\n%s", p.UID, d)
		}
		others := func(plan pools.Plan) pools.Plan {
			plan.Problems, plan.Free, plan.Idle = nil, cpuset.Set{}, cpuset.Set{}
			plan.Pods = slices.Clone(plan.Pods)
			plan.Pods = slices.DeleteFunc(plan.Pods, func(o pools.PodPlan) bool { return o.UID == p.UID })
			for i := range plan.Pods { // waiting containers have the number of free CPUs in their reason
				plan.Pods[i].Containers = slices.Clone(plan.Pods[i].Containers)
				for j := range plan.Pods[i].Containers {
					c := &plan.Pods[i].Containers[j]
					c.Reason.Text, c.Refused, c.Short = "", nil, nil
				}
			}
			plan.Units = slices.Clone(plan.Units)
			for i := range plan.Units {
				plan.Units[i].Reason.Text, plan.Units[i].Refused = "", nil
			}
			plan.Assignments = slices.DeleteFunc(slices.Clone(plan.Assignments), func(a pools.Assignment) bool { return a.PodUID == p.UID })
			return plan
		}
		if d := cmp.Diff(others(before), others(whole), equal); d != "" {
			t.Errorf("%s was placed alongside the others, and they change (-before +after):\n%s", p.UID, d)
		}
		if format(before) != untouched {
			t.Errorf("earlier plan of %s changed; want no change", p.UID)
		}
	}
	return placed
}

// guaranteed returns the pods with requests for exclusive CPUs.
func guaranteed(pods []pools.Pod) []pools.Pod {
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].QoS, pods[i].Unread = pools.QoSGuaranteed, false
	}
	return pods
}

// TestAlongsideLeaves checks that changes that concern others need a full plan: one case
// for each reason.
func TestAlongsideLeaves(t *testing.T) {
	gone, shares := podOf(1, 2), podOf(1, 2)
	gone.Gone, shares.QoS = true, pools.QoSBurstable
	for name, test := range map[string]struct {
		change func(in *pools.Input)
		pod    pools.Pod
		ok     bool
	}{
		"fits":                 {pod: podOf(1, 2), ok: true},
		"finds no room":        {pod: podOf(1, 3), ok: true}, // it changes nothing for others; the caller sees the refusal
		"shared releases CPUs": {func(in *pools.Input) { in.Pools.FromShared, in.Pools.Shared = true, in.Pools.Guaranteed }, podOf(1, 2), false},
		"management releases CPUs": {func(in *pools.Input) {
			in.Pools.Partitions = []pools.Partition{{Type: "management", CPUs: cpuset.Range(0, 7)}}
		}, podOf(1, 2), false},
		"another could have more": {func(in *pools.Input) { // it is resized, and no whole plan was made since
			in.Pods[0] = podOf(0, 3)
		}, podOf(1, 1), false},
		"another is unread":  {func(in *pools.Input) { in.Pods[1].Unread = true }, podOf(1, 2), false},
		"another is foreign": {func(in *pools.Input) { in.Pods[1].Containers[0].Foreign = &pools.Foreign{Manager: "x"} }, podOf(1, 2), false},
		"the kubelet places": {func(in *pools.Input) { in.Pools.Kubelet = true }, podOf(1, 2), false},
		"CPUs rest": {change: func(in *pools.Input) {
			in.Pools.FromShared, in.Pools.Shared, in.Resting = true, cpuset.Range(0, 7), cpuset.Of(6, 7)
		}, pod: podOf(1, 2), ok: false},
		"namespaces count": {func(in *pools.Input) { in.Namespaces.Asked = true }, podOf(1, 2), false},
		"it has gone":      {pod: gone},
		"it shares":        {pod: shares},
	} {
		t.Run(name, func(t *testing.T) {
			in := pools.Input{
				Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()),
				Pools:   pools.Pools{Shared: cpuset.Range(0, 3), Guaranteed: cpuset.Range(4, 7)},
				Pods:    []pools.Pod{podOf(0, 2), {UID: "shared", QoS: pools.QoSBurstable, Containers: []pools.Container{{ID: "s", Name: "c", State: pools.Running}}}},
			}
			plan := pools.Build(in)
			if len(plan.Assignments) != 1 || plan.Free.Len() != 2 {
				t.Fatalf("assignments = %v, free = %s; want one owner and 2 free CPUs", plan.Assignments, plan.Free)
			}
			if test.change != nil {
				test.change(&in)
			}
			if _, _, ok := pools.Alongside(&in, &plan, test.pod); ok != test.ok {
				t.Errorf("placed without a full plan = %t; want %t", ok, test.ok)
			}
		})
	}
}

// TestAlongsideTakesReserve checks that a pod takes CPUs of the shared pool alongside the others only
// if they were reserved for it.
func TestAlongsideTakesReserve(t *testing.T) {
	for reserved, want := range map[int]bool{0: false, 1: false, 2: true, 3: true} {
		in := pools.Input{
			Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()),
			Pools:   pools.Pools{Shared: cpuset.Range(0, 7), Guaranteed: cpuset.Range(0, 7), FromShared: true, Floor: 1},
			Pods:    []pools.Pod{podOf(0, 2)},
		}
		if reserved > 0 {
			sandbox := podOf(1, reserved)
			sandbox.Containers = nil
			in.Pods = append(in.Pods, sandbox)
		}
		plan := pools.Build(in)
		of := pools.Assigned(plan.Assignments, pools.Key{PodUID: podOf(1, 2).UID})
		if of.Len() != reserved {
			t.Errorf("reserved CPUs = %s; want %d", of, reserved)
		}
		p := podOf(1, 2)
		p.Resources = podOf(1, max(reserved, 2)).Resources
		placed, _, ok := pools.Alongside(&in, &plan, p)
		if ok != want {
			t.Errorf("%d CPUs reserved: placed without a full plan = %t; want %t", reserved, ok, want)
		}
		if ok && !placed.Containers[0].CPUs.IsSubsetOf(of) {
			t.Errorf("%d CPUs reserved: container is on CPUs %s; want some of %s", reserved, placed.Containers[0].CPUs, of)
		}
	}
}
