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
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// oracle tries all ways to meet a request. It is written after the package
// comment, counts the plain way, and shares nothing with the package.
type oracle struct {
	t    *topology.Topology
	free cpuset.Set
	r    allocate.Request

	have     cpuset.Set // online
	usable   cpuset.Set // by the preferences of one try
	admitted cpuset.Set // online, by the preferences of one try
	taken    cpuset.Set // on the hinted nodes, when the rest is at stake
}

// best returns the least cost; false when the request has to be refused.
func (o *oracle) best() (cost []int, ok bool) {
	for _, t := range o.tries() {
		if cost = o.try(t[0], t[1]); cost != nil {
			return cost, true
		}
	}
	return nil, false
}

// costOf returns the cost of taken by the first try that admits it.
func (o *oracle) costOf(taken cpuset.Set) []int {
	for _, t := range o.tries() {
		if best := o.try(t[0], t[1]); best != nil {
			return o.cost(taken)
		}
	}
	return nil
}

// tries returns the preferences to insist on: isolation, kind of core.
func (o *oracle) tries() [][2]bool {
	options := func(w allocate.Preference) []bool {
		switch w {
		case allocate.Require:
			return []bool{true}
		case allocate.Prefer, allocate.Avoid:
			return []bool{true, false}
		}
		return []bool{false}
	}
	kinds := options(o.r.Options.CoreTypePreference)
	if o.kind(topology.Performance).IsEmpty() || o.kind(topology.Efficiency).IsEmpty() {
		kinds = []bool{false}
	}
	var all [][2]bool
	for _, i := range options(o.r.Options.Isolated) {
		for _, k := range kinds {
			all = append(all, [2]bool{i, k})
		}
	}
	return all
}

func (o *oracle) kind(k topology.CoreKind) cpuset.Set {
	var ids []int
	for _, cpu := range o.t.CPUs {
		if cpu.Kind == k {
			ids = append(ids, cpu.ID)
		}
	}
	return cpuset.Of(ids...)
}

func (o *oracle) try(isolated, coreType bool) []int {
	op := o.r.Options
	o.have = o.r.Have.Intersection(o.t.Online)
	o.admitted = o.t.Online
	if isolated && op.Isolated == allocate.Avoid {
		o.admitted = o.admitted.Difference(o.t.Isolated)
	} else if isolated {
		o.admitted = o.admitted.Intersection(o.t.Isolated)
	}
	if coreType && op.CoreType == allocate.Performance {
		o.admitted = o.admitted.Intersection(o.kind(topology.Performance))
	} else if coreType {
		o.admitted = o.admitted.Intersection(o.kind(topology.Efficiency))
	}
	o.usable = o.free.Intersection(o.admitted)
	for _, core := range o.t.Cores {
		if op.FullPCPUsOnly && !core.CPUs.IsSubsetOf(o.usable.Union(o.have)) ||
			op.OneOwnerPerCore && !core.CPUs.IsSubsetOf(o.free.Union(o.have)) {
			o.usable = o.usable.Difference(core.CPUs)
		}
	}
	for _, allowed := range o.stages() {
		if best := o.least(allowed); best != nil {
			return best
		}
	}
	return nil
}

// stage is a set of ways that is preferred to the stages after it.
type stage struct {
	within, with cpuset.Set // the CPUs taken are in one and contain the other
	nodes        int        // at most, packages with align-by-socket; 0 for any
}

// stages follows the section on topology policies.
func (o *oracle) stages() []stage {
	all := stage{within: o.usable, with: o.first(o.usable, o.r.CPUs)}
	policy := o.r.Options.TopologyPolicy
	hinted := o.hinted()
	if policy == allocate.None || policy == allocate.BestEffort && hinted.IsEmpty() {
		return []stage{all}
	}
	own := o.ownRest()
	in := stage{within: o.usable.Intersection(hinted).Union(own)}
	in.with = o.first(in.within, o.r.CPUs)
	switch policy {
	case allocate.BestEffort:
		stages := []stage{in}
		if in.within.Len() < o.r.CPUs {
			o.taken = in.within
			rest := o.first(o.usable.Difference(in.within), o.r.CPUs-in.within.Len())
			o.taken = cpuset.Set{}
			stages = append(stages, stage{within: o.usable, with: in.within.Union(rest)})
		}
		return append(stages, all)
	case allocate.SingleNUMANode:
		if hinted.IsEmpty() {
			in = all
		}
		in.nodes = 1
		return []stage{in}
	}
	total := o.r.CPUs + o.have.Len()
	if !o.limited() {
		return []stage{in}
	}
	var rooms []int
	if o.r.Options.AlignBySocket {
		for _, p := range o.t.Packages {
			rooms = append(rooms, p.CPUs.Intersection(o.admitted).Len())
		}
	} else {
		for _, n := range o.t.Nodes {
			rooms = append(rooms, n.CPUs.Intersection(o.admitted).Len())
		}
	}
	slices.Sort(rooms)
	slices.Reverse(rooms)
	for total > 0 && all.nodes < len(rooms) {
		total -= rooms[all.nodes]
		all.nodes++
	}
	return []stage{all}
}

// hinted are the CPUs of the hinted nodes, of their packages with align-by-socket.
func (o *oracle) hinted() cpuset.Set {
	var hinted cpuset.Set
	for _, n := range o.t.Nodes {
		if o.r.Nodes.Contains(n.ID) {
			hinted = hinted.Union(n.CPUs)
		}
	}
	if o.r.Options.AlignBySocket {
		for _, p := range o.t.Packages {
			if p.CPUs.Overlaps(hinted) {
				hinted = hinted.Union(p.CPUs)
			}
		}
	}
	return hinted
}

// ownRest returns the usable CPUs in cores of which the owner has a part. They are
// taken first unless threads should be spread.
func (o *oracle) ownRest() cpuset.Set {
	var rest cpuset.Set
	if o.r.Options.DistributeCPUsAcrossCores {
		return rest
	}
	for _, core := range o.t.Cores {
		if core.CPUs.Overlaps(o.have) {
			rest = rest.Union(core.CPUs.Intersection(o.usable))
		}
	}
	return rest
}

// first are the CPUs of within that must be taken: the rest of the owner's cores,
// or with distribute-cpus-across-cores the groups that are needed as a whole.
func (o *oracle) first(within cpuset.Set, n int) cpuset.Set {
	if !o.r.Options.DistributeCPUsAcrossCores {
		return o.ownRest()
	}
	var first cpuset.Set
	if o.limited() {
		return first
	}
	var nodes, packages []cpuset.Set
	for _, n := range o.t.Nodes {
		nodes = append(nodes, n.CPUs)
	}
	for _, p := range o.t.Packages {
		packages = append(packages, p.CPUs)
	}
	outer, inner := packages, nodes
	if len(packages) >= len(nodes) {
		outer, inner = nodes, packages
	}
	for _, groups := range [][]cpuset.Set{outer, inner} {
		for {
			best := -1
			for i, group := range groups {
				if !group.IsSubsetOf(within.Difference(first)) || group.IsEmpty() || group.Len() > n-first.Len() {
					continue
				}
				if best < 0 || slices.Compare(o.packageRank(group, first, n), o.packageRank(groups[best], first, n)) < 0 {
					best = i
				}
			}
			if best < 0 {
				break
			}
			first = first.Union(groups[best])
		}
	}
	return first
}

// packageRank returns the rank of the package of group for the CPUs needed after first;
// a lower one is better. The owner's packages are first, then the fullest with enough
// CPUs, then the emptiest.
func (o *oracle) packageRank(group, first cpuset.Set, n int) []int {
	cpu, _ := o.t.CPU(group.First())
	pkg := o.t.Packages[cpu.Package].CPUs
	touched := o.have.Union(first, o.taken)
	rank := []int{1, 0, 0}
	if pkg.Overlaps(touched) {
		rank[0] = 0
		return rank
	}
	usable := pkg.Intersection(o.usable.Difference(first)).Len()
	rank[2] = usable
	if usable < n-first.Len() {
		rank[1], rank[2] = 1, -usable
	}
	return rank
}

// least is the least cost in a stage, or nil.
func (o *oracle) least(s stage) []int {
	ids := slices.Collect(s.within.All())
	if len(ids) < o.r.CPUs {
		return nil
	}
	var least []int
	for mask := uint(1)<<o.r.CPUs - 1; mask < 1<<len(ids); mask = nextOfSameSize(mask) {
		taken := make([]int, 0, o.r.CPUs)
		for m := mask; m != 0; m &= m - 1 {
			taken = append(taken, ids[bits.TrailingZeros(m)])
		}
		set := cpuset.Of(taken...)
		if !o.admits(s, set) {
			continue
		}
		if cost := o.cost(set); least == nil || slices.Compare(cost, least) < 0 {
			least = cost
		}
	}
	return least
}

// nextOfSameSize is the next number with as many bits set.
func nextOfSameSize(mask uint) uint {
	low := mask & -mask
	ripple := mask + low
	return ripple | (mask^ripple)>>2/low
}

func (o *oracle) admits(s stage, taken cpuset.Set) bool {
	if s.with.Len() <= o.r.CPUs && !s.with.IsSubsetOf(taken) || s.with.Len() > o.r.CPUs && !taken.IsSubsetOf(s.with) {
		return false
	}
	all := taken.Union(o.have)
	if s.nodes > 0 {
		groups, had := o.count(all, nodeOf), o.count(o.have, nodeOf)
		if o.r.Options.AlignBySocket {
			groups, had = o.count(all, packageOf), o.count(o.have, packageOf)
		}
		if groups > max(s.nodes, had) {
			return false
		}
	}
	if o.r.Options.FullPCPUsOnly {
		if all.Len()%o.t.Cores[0].CPUs.Len() != 0 && o.regular() {
			return false
		}
		for _, core := range o.t.Cores {
			if core.CPUs.Overlaps(taken) && !core.CPUs.IsSubsetOf(all) {
				return false
			}
		}
	}
	return true
}

// regular reports whether all cores have the same number of threads.
func (o *oracle) regular() bool {
	return !slices.ContainsFunc(o.t.Cores, func(c topology.Group) bool { return c.CPUs.Len() != o.t.Cores[0].CPUs.Len() })
}

func nodeOf(cpu topology.CPU) int    { return cpu.Node }
func packageOf(cpu topology.CPU) int { return cpu.Package }
func l3Of(cpu topology.CPU) int      { return cpu.L3 }
func coreOf(cpu topology.CPU) int    { return cpu.Core }
func cellOf(cpu topology.CPU) int    { return cpu.Node<<16 | cpu.Package }

func (o *oracle) groups(cpus cpuset.Set, of func(topology.CPU) int) []int {
	var seen []int
	for id := range cpus.All() {
		if cpu, ok := o.t.CPU(id); ok && !slices.Contains(seen, of(cpu)) {
			seen = append(seen, of(cpu))
		}
	}
	return seen
}

func (o *oracle) count(cpus cpuset.Set, of func(topology.CPU) int) int {
	return len(o.groups(cpus, of))
}

// in counts the CPUs of cpus that are in one of the groups.
func (o *oracle) in(cpus cpuset.Set, of func(topology.CPU) int, groups []int) int {
	n := 0
	for id := range cpus.All() {
		if cpu, _ := o.t.CPU(id); slices.Contains(groups, of(cpu)) {
			n++
		}
	}
	return n
}

// far counts the groups of taken in which neither the owner nor its companions,
// nor the hint, are.
func (o *oracle) far(taken cpuset.Set, of func(topology.CPU) int, near cpuset.Set) int {
	known := o.groups(o.have.Union(near), of)
	n := 0
	for _, g := range o.groups(taken, of) {
		if !slices.Contains(known, g) {
			n++
		}
	}
	return n
}

// cost returns the costs of the section on the order, in its order.
func (o *oracle) cost(taken cpuset.Set) []int {
	op := o.r.Options
	all := taken.Union(o.have)
	nodes, packages, l3s := o.count(all, nodeOf), o.count(all, packageOf), o.count(all, l3Of)
	parts, broken := 0, 0
	for _, core := range o.t.Cores {
		if !core.CPUs.Overlaps(all) || core.CPUs.IsSubsetOf(all) {
			continue
		}
		parts++
		if core.CPUs.IsSubsetOf(o.usable) {
			broken++
		}
	}
	if op.DistributeCPUsAcrossCores {
		own := o.groups(o.have, coreOf)
		parts, broken = taken.Len(), 0
		for i, core := range o.t.Cores {
			if core.CPUs.Overlaps(taken) && !slices.Contains(own, i) {
				parts--
				if !core.CPUs.IsSubsetOf(o.usable) {
					broken++
				}
			}
		}
	}
	near := o.r.Near
	hinted := false
	if op.TopologyPolicy != allocate.None {
		for _, n := range o.t.Nodes {
			if o.r.Nodes.Contains(n.ID) && !n.CPUs.IsEmpty() {
				hinted = true
			}
		}
	}
	nodeNear := near
	if hinted {
		for _, n := range o.t.Nodes {
			if o.r.Nodes.Contains(n.ID) {
				nodeNear = nodeNear.Union(n.CPUs)
			}
		}
	}
	farNodes := o.far(taken, nodeOf, nodeNear)
	var cost []int
	switch {
	case op.DistributeCPUsAcrossCores && o.limited() && !op.AlignBySocket:
		cost = []int{nodes, parts, packages, l3s, farNodes}
	case op.DistributeCPUsAcrossCores:
		cost = []int{packages, parts, nodes, l3s, farNodes}
	case op.AlignBySocket && op.PreferAlignCPUsByUncoreCache:
		cost = []int{parts, packages, l3s, nodes, farNodes}
	case op.PreferAlignCPUsByUncoreCache:
		cost = []int{parts, l3s, nodes, packages, farNodes}
	case op.AlignBySocket && hinted:
		cost = []int{parts, packages, farNodes, nodes, l3s}
	case op.AlignBySocket:
		cost = []int{parts, packages, nodes, l3s, farNodes}
	default:
		cost = []int{parts, nodes, packages, l3s, farNodes}
	}
	distance := 0
	in := o.groups(all, nodeOf)
	for i, a := range in {
		for _, b := range in[:i] {
			distance += o.t.Nodes[a].Distances[b] + o.t.Nodes[b].Distances[a]
		}
	}
	cost = append(cost, o.far(taken, packageOf, near), o.far(taken, l3Of, near), distance, broken)
	if hinted || !o.have.IsEmpty() || op.DistributeCPUsAcrossCores {
		return cost // CPUs that are taken in steps are not compared to the last place
	}
	rest := o.usable.Difference(taken)
	return append(cost, o.in(rest, cellOf, o.groups(taken, cellOf)), o.in(rest, l3Of, o.groups(taken, l3Of)))
}

// limited reports whether the policy bounds the number of nodes.
func (o *oracle) limited() bool {
	switch o.r.Options.TopologyPolicy {
	case allocate.SingleNUMANode:
		return true
	case allocate.Restricted:
		hinted := o.hinted()
		return hinted.IsEmpty() || o.admitted.Intersection(hinted).Len() < o.r.CPUs+o.have.Len()
	}
	return false
}

// TestTakeIsBest compares the taken CPUs with all possible choices on small machines,
// for random options and requests.
func TestTakeIsBest(t *testing.T) {
	for i, m := range hardware.Small() {
		t.Run(fmt.Sprintf("%+v", m), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, uint64(i)))
			top := m.Topology()
			top.Isolated = cpuset.Range(top.Online.Len()/2, top.Online.Len()-3)
			for range 200 {
				o := randomRequest(r, top)
				checkBest(t, o)
			}
		})
	}
}

func checkBest(t *testing.T, o *oracle) {
	t.Helper()
	s := allocate.New(o.t).Supply(o.free)
	got, err := s.Take(o.r)
	want, ok := o.best()
	switch {
	case !ok && err == nil:
		t.Errorf("%+v of %s = %s; want a refusal", o.r, o.free, got)
	case ok && err != nil:
		t.Errorf("%+v of %s is refused (%v), but cost %v is possible", o.r, o.free, err, want)
	case ok:
		if cost := o.costOf(got); got.Len() != o.r.CPUs || !slices.Equal(cost, want) {
			t.Errorf("%+v of %s: %s costs %v, want %v", o.r, o.free, got, cost, want)
		}
	}
}

// randomRequest asks for something that may be there or not.
func randomRequest(r *rand.Rand, top *topology.Topology) *oracle {
	o := &oracle{t: top, free: randomSubset(r, top.Online, 4)}
	o.r = allocate.Request{CPUs: 1 + r.IntN(6), Options: randomOptions(r)}
	if r.IntN(3) == 0 && (top.ThreadsPerCore() <= 2 || !o.r.Options.FullPCPUsOnly) {
		o.r.Have = randomSubset(r, top.Online, 5).Take(3)
		o.free = o.free.Difference(o.r.Have)
	}
	if r.IntN(3) == 0 {
		o.r.Near = randomSubset(r, top.Online.Difference(o.free), 2)
	}
	for _, n := range top.Nodes {
		if r.IntN(4) == 0 {
			o.r.Nodes = o.r.Nodes.Union(cpuset.Of(n.ID))
		}
	}
	return o
}

// randomSubset leaves out one in n.
func randomSubset(r *rand.Rand, s cpuset.Set, n int) cpuset.Set {
	var ids []int
	for id := range s.All() {
		if r.IntN(n) > 0 {
			ids = append(ids, id)
		}
	}
	return cpuset.Of(ids...)
}

func randomOptions(r *rand.Rand) allocate.Options {
	for {
		o := allocate.Options{
			FullPCPUsOnly:                r.IntN(4) == 0,
			AlignBySocket:                r.IntN(4) == 0,
			DistributeCPUsAcrossCores:    r.IntN(5) == 0,
			PreferAlignCPUsByUncoreCache: r.IntN(4) == 0,
			OneOwnerPerCore:              r.IntN(5) == 0,
			TopologyPolicy:               []allocate.Policy{allocate.None, allocate.BestEffort, allocate.Restricted, allocate.SingleNUMANode}[r.IntN(4)],
			Isolated:                     []allocate.Preference{"", "", "", allocate.Prefer, allocate.Require, allocate.Avoid}[r.IntN(6)],
		}
		if r.IntN(3) == 0 {
			o.CoreType = []allocate.CoreType{allocate.Performance, allocate.Efficiency}[r.IntN(2)]
			o.CoreTypePreference = []allocate.Preference{allocate.Prefer, allocate.Require}[r.IntN(2)]
		}
		if len(o.Validate()) == 0 {
			return o
		}
	}
}
