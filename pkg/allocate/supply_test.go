package allocate_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// A used supply keeps counts and memory for the next request: it has served or refused
// others, or was made of one with other CPUs. It gives the same result as a new supply
// of the same CPUs.
func TestServedSupplyIsAsGoodAsNew(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := hardware.Machine{
			Packages: 1 + r.IntN(3), Nodes: 1 + r.IntN(3), L3s: 1 + r.IntN(3), Cores: 1 + r.IntN(4), Threads: 1 + r.IntN(3),
			Small: r.IntN(2), Adjacent: r.IntN(2) == 0, NUMAOff: r.IntN(4) == 0,
		}
		top := m.Topology()
		top.Isolated = randomSubset(r, top.Online, 2)
		machine := allocate.New(top)
		served := machine.Supply(top.Online)
		var last cpuset.Set
		for range 12 {
			o := randomRequest(r, top).r
			o.Have, o.CPUs = cpuset.Set{}, 1+r.IntN(6)
			if r.IntN(3) > 0 {
				o.Options = allocate.Options{OneOwnerPerCore: seed%2 > 0}
			}
			switch r.IntN(4) {
			case 0:
				o.Have = last
			case 1:
				o.Have = randomSubset(r, top.Online, 4) // some of which is free
			case 2:
				served.Reset(randomSubset(r, top.Online, 4))
			}
			fresh := machine.Supply(served.Free())
			want, wantErr := fresh.Take(o)
			got, err := served.Take(o)
			if !got.Equal(want) || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() || !served.Free().Equal(fresh.Free()) {
				t.Fatalf("seed %d: %+v of %s gives %s (%v); a new supply gives %s (%v)", seed, o, served.Free(), got, err, want, wantErr)
			}
			last = got
		}
	}
}

// The second request and those after it use the memory of the first: only the returned
// set is allocated.
func TestServedSupplyAllocatesNothing(t *testing.T) {
	m := allocate.New(machineOf(t, "packages=2 nodes=4 cores=8 threads=2").Topology())
	for _, options := range []allocate.Options{{}, {OneOwnerPerCore: true}} {
		s := m.Supply(cpuset.Range(0, 127))
		take := func(n int) {
			if _, err := s.Take(allocate.Request{CPUs: n, Options: options}); err != nil {
				t.Fatal(err)
			}
		}
		take(2)
		if got := testing.AllocsPerRun(20, func() { take(2); take(3) }); got > 2 {
			t.Errorf("%+v: %v allocations for two requests; want one for each", options, got)
		}
	}
}
