package allocate_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// distributed is the least cost of taking the CPUs in even shares, tried in all
// ways, or nil when it cannot be done: the nodes, then what the section on
// distribute-cpus-across-numa names.
func (o *oracle) distributed() []int {
	ids := slices.Collect(o.usable.All())
	if len(ids) < o.r.CPUs {
		return nil
	}
	var least []int
	for mask := uint(1)<<o.r.CPUs - 1; mask < 1<<len(ids); mask = nextOfSameSize(mask) {
		taken := make([]int, 0, o.r.CPUs)
		for m := mask; m != 0; m &= m - 1 {
			taken = append(taken, ids[bits.TrailingZeros(m)])
		}
		cost := o.shareCost(cpuset.Of(taken...))
		if cost != nil && (least == nil || slices.Compare(cost, least) < 0) {
			least = cost
		}
	}
	return least
}

// shareCost is nil when a node has less than an even share, or a core in part with
// full-pcpus-only.
func (o *oracle) shareCost(taken cpuset.Set) []int {
	unit := 1
	if o.r.Options.FullPCPUsOnly {
		unit = o.t.Cores[0].CPUs.Len()
	}
	parts := 0
	for _, core := range o.t.Cores {
		if core.CPUs.Overlaps(taken) && !core.CPUs.IsSubsetOf(taken) {
			parts++
		}
	}
	if unit > 1 && parts > 0 {
		return nil
	}
	in := o.groups(taken, nodeOf)
	even := taken.Len() / unit / len(in) * unit
	if o.r.Options.AlignBySocket {
		even = 1
	}
	least, most, squares, left := taken.Len(), 0, 0, 0
	for i, node := range o.t.Nodes {
		share := node.CPUs.Intersection(taken).Len()
		free := node.CPUs.Intersection(o.usable).Len()
		if free >= unit { // others have nothing to give
			left += (free - share) * (free - share)
		}
		if !slices.Contains(in, i) {
			continue
		}
		least, most, squares = min(least, share), max(most, share), squares+share*share
	}
	if least < even {
		return nil
	}
	packages, distance := o.count(taken, packageOf), 0
	for i, a := range in {
		for _, b := range in[:i] {
			distance += o.t.Nodes[a].Distances[b] + o.t.Nodes[b].Distances[a]
		}
	}
	cost := []int{len(in), 0, most - least, squares, parts, packages, o.count(taken, l3Of), left, distance}
	if o.r.Options.AlignBySocket {
		cost[1] = packages
	}
	return cost
}

func TestDistributionIsBest(t *testing.T) {
	for i, m := range smallMachines() {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, uint64(i)))
			top := m.topology()
			for range 300 {
				o := &oracle{t: top, free: randomSubset(r, top.Online, 3)}
				o.r = allocate.Request{CPUs: 2 + r.IntN(6), Options: allocate.Options{
					DistributeCPUsAcrossNUMA: true, FullPCPUsOnly: r.IntN(3) == 0 && o.regular(),
					// Of a node that spans packages the share is packed like any request.
					AlignBySocket:  r.IntN(3) == 0 && !m.numaOff,
					TopologyPolicy: allocate.None,
				}}
				checkDistribution(t, o)
			}
		})
	}
}

func checkDistribution(t *testing.T, o *oracle) {
	t.Helper()
	got, err := allocate.New(o.t).Supply(o.free).Take(o.r)
	want, fits := o.best() // refused like without the option
	if (err == nil) != fits {
		t.Errorf("%+v of %s: %v, but cost %v", o.r, o.free, err, want)
	}
	if want = o.distributed(); want == nil || err != nil {
		return
	}
	if cost := o.shareCost(got); !slices.Equal(cost, want) {
		t.Errorf("%+v of %s: %s costs %v, want %v", o.r, o.free, got, cost, want)
	}
}
