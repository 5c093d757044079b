package allocate_test

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/testing/testnode/hardware"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// distributed returns the minimum cost of taking the CPUs in even shares, or nil if
// that is impossible. It tries all ways. The cost is the number of nodes, then the
// criteria of the section on distribute-cpus-across-numa.
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
	floors := o.evenShares(in, taken.Len()/unit, unit)
	if floors == nil {
		return nil
	}
	squares, left := 0, 0
	for i, node := range o.t.Nodes {
		share := node.CPUs.Intersection(taken).Len()
		free := node.CPUs.Intersection(o.usable).Len()
		if free >= unit { // others have nothing to give
			left += (free - share) * (free - share)
		}
		squares += share * share
		if share < floors[i] {
			return nil
		}
	}
	packages, distance := o.count(taken, packageOf), 0
	for i, a := range in {
		for _, b := range in[:i] {
			distance += o.t.Nodes[a].Distances[b] + o.t.Nodes[b].Distances[a]
		}
	}
	cost := []int{len(in), 0, parts, squares, packages, o.count(taken, l3Of), left, distance}
	if o.r.Options.AlignBySocket {
		cost[1] = packages
	}
	return cost
}

// evenShares returns the minimum share of each node, by index, of so many units from
// the nodes in: equal shares, if the nodes have enough. It returns nil if one of them
// has too few, unless align-by-socket allows for that.
func (o *oracle) evenShares(in []int, units, unit int) []int {
	shares := make([]int, len(o.t.Nodes))
	for {
		var open []int
		for _, i := range in {
			if o.t.Nodes[i].CPUs.Intersection(o.usable).Len()/unit > shares[i] {
				open = append(open, i)
			}
		}
		if units < len(open) || len(open) == 0 {
			break
		}
		if len(open) < len(in) && !o.r.Options.AlignBySocket {
			if slices.Min(valuesOf(shares, in)) < (units+sum(shares))/len(in) {
				return nil
			}
			break
		}
		for _, i := range open {
			shares[i]++
			units--
		}
	}
	for i := range shares {
		shares[i] *= unit
	}
	return shares
}

func valuesOf(values, indices []int) []int {
	var of []int
	for _, i := range indices {
		of = append(of, values[i])
	}
	return of
}

func sum(values []int) int {
	n := 0
	for _, v := range values {
		n += v
	}
	return n
}

func TestDistributionIsBest(t *testing.T) {
	for i, m := range hardware.Small() {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			r := rand.New(rand.NewPCG(4, uint64(i)))
			top := m.Topology()
			for range 300 {
				o := &oracle{t: top, free: randomSubset(r, top.Online, 3)}
				o.r = allocate.Request{CPUs: 2 + r.IntN(6), Options: allocate.Options{
					DistributeCPUsAcrossNUMA: true, FullPCPUsOnly: r.IntN(3) == 0 && o.regular(),
					// Of a node that spans packages the share is packed like any request.
					AlignBySocket:  r.IntN(3) == 0 && !m.NUMAOff,
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
