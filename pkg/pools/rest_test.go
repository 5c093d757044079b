package pools_test

import (
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TestResting checks that CPUs rest where they would go to the shared pool. They rest
// while a container has exclusive CPUs, and as long as the shared pool keeps its floor.
func TestResting(t *testing.T) {
	base := pools.Pools{Shared: cpuset.Range(0, 7), Guaranteed: cpuset.Range(2, 7), FromShared: true, Floor: 2, Units: []pools.UnitSpec{{Name: "du.service", CPUs: 2}}}
	for name, c := range map[string]struct {
		change          func(*pools.Input)
		resting, shared string
	}{
		"resting shared CPUs": {func(in *pools.Input) { in.Resting = cpuset.Range(4, 5) }, "4-5", "0-1,6-7"},
		"CPUs of an owner":    {func(in *pools.Input) { in.Resting = cpuset.Range(2, 4) }, "4", "0-1,5-7"},
		"not below the floor": {func(in *pools.Input) { in.Resting, in.Pools.Floor = cpuset.Range(0, 7), 4 }, "4-5", "0-1,6-7"},
		"no owner":            {func(in *pools.Input) { in.Resting, in.Pools.Units = cpuset.Range(4, 5), nil }, "", "0-7"},
		"no resting CPUs":     {func(*pools.Input) {}, "", "0-1,4-7"},
		"a fixed list": {func(in *pools.Input) {
			in.Resting, in.Pools.Shared, in.Pools.FromShared, in.Pools.Floor = cpuset.Range(4, 5), cpuset.Range(0, 1), false, 0
		}, "", "0-1"},
	} {
		t.Run(name, func(t *testing.T) {
			in := pools.Input{Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()), Pools: base}
			in.Previous = []pools.Assignment{{Key: pools.Key{Container: "du.service"}, CPUs: cpuset.Range(2, 3)}}
			c.change(&in)
			p := checkedBuild(t, in)
			if p.Resting.String() != c.resting || p.Shared.String() != c.shared {
				t.Errorf("CPUs %q rest, shared are %q; want %q and %q", p.Resting, p.Shared, c.resting, c.shared)
			}
		})
	}
}

// TestRestingIsFree checks that the next owner can have resting CPUs, if it would have
// them anyway.
func TestRestingIsFree(t *testing.T) {
	in := pools.Input{
		Machine: allocate.New(hardware.Machine{Packages: 1, Nodes: 1, L3s: 1, Cores: 4, Threads: 2}.Topology()), Resting: cpuset.Range(4, 5),
		Pools: pools.Pools{Shared: cpuset.Range(0, 7), Guaranteed: cpuset.Range(2, 7), FromShared: true, Floor: 2,
			Units: []pools.UnitSpec{{Name: "a.service", CPUs: 2}, {Name: "b.service", CPUs: 2}}},
		Previous: []pools.Assignment{{Key: pools.Key{Container: "a.service"}, CPUs: cpuset.Range(2, 3)}},
	}
	p := checkedBuild(t, in)
	if !p.Resting.IsEmpty() || p.Shared.String() != "0-1,6-7" {
		t.Errorf("resting = %q, shared = %q; want the resting CPUs for the second owner", p.Resting, p.Shared)
	}
}
