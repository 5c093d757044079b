package allocate_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/testing/invariants"
	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// owner is a container with allocated CPUs.
type owner struct {
	cpus cpuset.Set
	r    allocate.Request
}

// sequence lets one owner after the other request CPUs, on a machine and with options
// that numbers choose, and checks the properties of all results.
func sequence(t *testing.T, r *rand.Rand) {
	m := hardware.Machine{
		Packages: 1 + r.IntN(3), Nodes: 1 + r.IntN(3), L3s: 1 + r.IntN(3), Cores: 1 + r.IntN(3), Threads: 1 + r.IntN(4),
		Small: r.IntN(2), Adjacent: r.IntN(2) == 0, NUMAOff: r.IntN(4) == 0,
	}
	all := m.Topology().Online
	if r.IntN(3) == 0 {
		m.Offline = all.Difference(randomSubset(r, all, 5)).Difference(cpuset.Of(0))
	}
	top := m.Topology()
	top.Isolated = randomSubset(r, top.Online, 2)
	machine := allocate.New(top)
	supply, again := machine.Supply(all), machine.Supply(all)
	var owners []owner
	for range 8 {
		o := randomRequest(r, top).r
		o.Have, o.CPUs = cpuset.Set{}, 1+r.IntN(9)
		if !o.Options.DistributeCPUsAcrossCores && !o.Options.PreferAlignCPUsByUncoreCache && o.Options.TopologyPolicy != allocate.SingleNUMANode {
			o.Options.DistributeCPUsAcrossNUMA = r.IntN(2) == 0
		}
		grows := len(owners) > 0 && r.IntN(4) == 0
		if grows {
			o.Have = owners[len(owners)-1].cpus
			o.Options.OneOwnerPerCore = owners[len(owners)-1].r.Options.OneOwnerPerCore
		}
		before := supply.Free()
		cpus, err := supply.Take(o)
		same, err2 := again.Take(o)
		if !same.Equal(cpus) || (err == nil) != (err2 == nil) {
			t.Fatalf("%+v of %s = %s, then %s; want the same result", o, before, cpus, same)
		}
		checkTaken(t, top, o, before, cpus, supply.Free(), err)
		if err != nil {
			continue
		}
		if grows {
			owners[len(owners)-1].cpus = o.Have.Union(cpus)
			continue
		}
		owners = append(owners, owner{cpus, o})
	}
	checkOwners(t, top, owners)
}

// checkTaken checks one request against the supply before and after it.
func checkTaken(t *testing.T, top *topology.Topology, r allocate.Request, before, cpus, after cpuset.Set, err error) {
	t.Helper()
	if err != nil {
		refusal, ok := errors.AsType[*allocate.Refusal](err)
		if !ok || !after.Equal(before) || !cpus.IsEmpty() {
			t.Fatalf("%+v of %s: %v leaves %s and gives %s; want no change", r, before, err, after, cpus)
		}
		if refusal.Asked != r.CPUs || refusal.Free != before.Len() || refusal.Usable > refusal.Free || refusal.Code == "" || refusal.Why == "" {
			t.Fatalf("%+v of %s: refusal = %+v; want the numbers of the request", r, before, refusal)
		}
		return
	}
	if cpus.Len() != r.CPUs || !cpus.IsSubsetOf(before) || !after.Equal(left(top, r, before, cpus)) {
		t.Fatalf("%+v of %s: gives %s and leaves %s; want the requested number and the rest", r, before, cpus, after)
	}
	o := oracle{t: top, free: before, r: r}
	all := cpus.Union(r.Have)
	for _, core := range top.Cores {
		whole := core.CPUs.IsSubsetOf(all)
		if r.Options.FullPCPUsOnly && core.CPUs.Overlaps(cpus) && !whole {
			t.Fatalf("%+v of %s: %s has a part of core %s; want whole cores", r, before, cpus, core.CPUs)
		}
	}
	if r.Options.Isolated == allocate.Require && !cpus.IsSubsetOf(top.Isolated) {
		t.Fatalf("%+v of %s = %s; want isolated CPUs", r, before, cpus)
	}
	if p := r.Options.TopologyPolicy; p == allocate.SingleNUMANode && o.count(all, nodeOf) > max(1, o.count(r.Have, nodeOf)) {
		t.Fatalf("%+v of %s = %s; want one node", r, before, cpus)
	}
}

// left returns the rest of a supply after cpus have been taken.
func left(top *topology.Topology, r allocate.Request, before, cpus cpuset.Set) cpuset.Set {
	for cpu := range cpus.All() {
		before = before.Difference(cpuset.Of(cpu))
		if r.Options.OneOwnerPerCore {
			before = before.Difference(top.ThreadSiblings(cpu))
		}
	}
	return before
}

// checkOwners checks that all owners are disjoint, and that an owner with whole cores
// has them alone.
func checkOwners(t *testing.T, top *topology.Topology, owners []owner) {
	t.Helper()
	var occupants []invariants.Occupant
	for _, o := range owners {
		occupants = append(occupants, invariants.Occupant{Name: o.cpus.String(), CPUs: o.cpus, Exclusive: true})
	}
	if errs := invariants.CheckOccupants(occupants); len(errs) > 0 {
		t.Fatal(errs)
	}
	for _, core := range top.Cores {
		in := slices.DeleteFunc(slices.Clone(owners), func(o owner) bool { return !o.cpus.Overlaps(core.CPUs) })
		alone := slices.ContainsFunc(in, func(o owner) bool { return o.r.Options.OneOwnerPerCore })
		if alone && len(in) > 1 {
			t.Fatalf("owners of core %s = %v; want one", core.CPUs, in)
		}
	}
}

func TestSequences(t *testing.T) {
	for seed := range uint64(2000) {
		sequence(t, rand.New(rand.NewPCG(seed, 0)))
	}
}

func FuzzTake(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { sequence(t, rand.New(rand.NewPCG(a, b))) })
}

func TestShape(t *testing.T) {
	m := allocate.New(machineOf(t, "packages=2 nodes=2 l3s=2 cores=1 threads=2").Topology())
	tests := []struct {
		cpus string
		want allocate.Shape
	}{
		{"", allocate.Shape{}},
		{"0", allocate.Shape{CPUs: 1, Nodes: 1, Packages: 1, L3s: 1, Cores: 1, SplitCores: 1}},
		{"0,8", allocate.Shape{CPUs: 2, Nodes: 1, Packages: 1, L3s: 1, Cores: 1}},
		{"0-2,8", allocate.Shape{CPUs: 4, Nodes: 2, Packages: 1, L3s: 3, Cores: 3, SplitCores: 2}},
		{"0-20", allocate.Shape{CPUs: 16, Nodes: 4, Packages: 2, L3s: 8, Cores: 8}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, m.Shape(set(t, tt.cpus))); diff != "" {
			t.Errorf("Shape(%s): -want +got\n%s", tt.cpus, diff)
		}
	}
}
