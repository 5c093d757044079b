package allocate

import (
	"cmp"
	"slices"
)

// distribution looks for the nodes to take an even share of CPUs from each.
type distribution struct {
	q *search
	// unit is the number of CPUs that are given together: threads per core with
	// whole cores only.
	unit  int
	nodes []share
	// memo is what a share of a node costs, by node and units.
	memo map[[2]int32]shareCost

	chosen []int32 // of nodes, by index
	found  bool
	cost   distributionCost
	best   []portion
}

// share is a node with what it could give.
type share struct {
	cells []int32
	tally tally
	units int
}

// portion is what a node gives.
type portion struct{ node, units int32 }

// shareCost is cores in part and caches.
type shareCost struct {
	ok         bool
	parts, l3s int32
}

// distributionCost orders the distributions over one number of nodes. It holds
// packages (with align-by-socket), cores in part, the sum of the shares' squares,
// packages, caches, the sum of the squares of what stays free in each node, and
// the distance.
type distributionCost [7]int64

// distribute picks q.n CPUs in even shares from as few nodes as can give them, and
// is false, with nothing picked, when none can.
func (q *search) distribute() bool {
	d := distribution{q: q, unit: 1, memo: make(map[[2]int32]shareCost)}
	if q.whole {
		d.unit = max(q.m.group, 1)
	}
	if q.n%d.unit != 0 {
		return false
	}
	d.collect()
	most := min(len(d.nodes), q.n/d.unit)
	if q.limit > 0 && !q.byPackage {
		most = min(most, q.limit)
	}
	for size := 1; size <= most && !d.found; size++ {
		if d.enough(d.largest(size)) {
			d.try(size)
		}
	}
	if !d.found {
		return false
	}
	for _, p := range d.best {
		sub := d.search(d.nodes[p.node].cells, int(p.units)*d.unit)
		sub.run()
		sub.fill(sub.best.leaves)
	}
	return true
}

func (d *distribution) collect() {
	for _, cells := range d.q.m.cellsOfNode {
		s := share{tally: make(tally, len(d.q.v.total))}
		for _, c := range cells {
			if d.q.v.cells[c].cpus() > 0 && (d.q.allowed == nil || d.q.allowed[c]) {
				s.cells = append(s.cells, c)
				s.tally.add(d.q.v.cells[c], 1)
			}
		}
		if s.units = s.tally.cpus() / d.unit; s.units > 0 {
			d.nodes = append(d.nodes, s)
		}
	}
}

// largest are the size nodes that could give the most.
func (d *distribution) largest(size int) []int32 {
	order := make([]int32, len(d.nodes))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(d.nodes[b].units, d.nodes[a].units) })
	return order[:size]
}

// enough says whether each of the nodes has its share, and all of them together
// the rest. With align-by-socket a node may give less than an even share.
func (d *distribution) enough(nodes []int32) bool {
	needed, all := d.q.n/d.unit, 0
	for _, i := range nodes {
		all += d.nodes[i].units
		if !d.q.byPackage && d.nodes[i].units < needed/len(nodes) {
			return false
		}
	}
	return all >= needed
}

// try considers the combinations of size nodes: all of them, or where there are
// too many, only that of the largest.
func (d *distribution) try(size int) {
	if combinations(len(d.nodes), size) > maxCombinations-d.q.considered {
		d.chosen = d.largest(size)
		slices.Sort(d.chosen)
		d.consider()
		return
	}
	d.extend(0, size)
}

func (d *distribution) extend(from, size int) {
	if size == 0 {
		d.consider()
		return
	}
	for i := from; i <= len(d.nodes)-size; i++ {
		if d.found && d.q.considered > maxCombinations {
			return
		}
		d.chosen = append(d.chosen, int32(i))
		d.extend(i+1, size-1)
		d.chosen = d.chosen[:len(d.chosen)-1]
	}
}

func (d *distribution) consider() {
	d.q.considered++
	if !d.enough(d.chosen) {
		return
	}
	portions := d.portions()
	c, ok := d.costOf(portions)
	if !ok || d.found && slices.Compare(c[:], d.cost[:]) >= 0 {
		return
	}
	d.found, d.cost, d.best = true, c, portions
}

// portions shares the units out as evenly as the chosen nodes allow, and what is
// left of that to those nodes where it splits the fewest cores.
func (d *distribution) portions() []portion {
	left := int32(d.q.n / d.unit)
	all := make([]portion, 0, len(d.chosen))
	for _, i := range d.chosen {
		all = append(all, portion{node: i})
	}
	if !d.q.byPackage {
		for i := range all {
			all[i].units = left / int32(len(all))
		}
		d.remainder(all, left%int32(len(all)))
		return all
	}
	room := func(p portion) int32 { return int32(d.nodes[p.node].units) - p.units }
	for left > 0 {
		open := int32(0)
		for _, p := range all {
			open += toInt(room(p) > 0)
		}
		if open == 0 {
			break
		}
		if left < open {
			d.remainder(all, left)
			break
		}
		step := left / open
		for _, p := range all {
			if room(p) > 0 {
				step = min(step, room(p))
			}
		}
		for i := range all {
			if room(all[i]) > 0 {
				all[i].units += step
				left -= step
			}
		}
	}
	return all
}

// portionCost orders what a portion adds: cores in part, its square, caches, the
// square of what stays free.
type portionCost [4]int64

func (d *distribution) portionCost(p portion) portionCost {
	s, units := d.shareCost(p), int64(p.units)
	free := int64(d.nodes[p.node].units) - units
	return portionCost{int64(s.parts), units * units, int64(s.l3s), free * free}
}

// remainder gives left units more to the portions, so that they cost the least
// together: the costs of 0 to left units for the first portion, for the first two,
// and so on.
func (d *distribution) remainder(all []portion, left int32) {
	d.q.considered += len(all) * int(left)
	costs := make([]portionCost, left+1)
	for i := range costs {
		costs[i][0] = int64(min(i, 1)) << 32 // nobody to give them to
	}
	given := make([][]int32, len(all))
	for i, p := range all {
		next := make([]portionCost, left+1)
		given[i] = make([]int32, left+1)
		for sum := range left + 1 {
			for n := int32(0); n <= min(sum, int32(d.nodes[p.node].units)-p.units); n++ {
				c := d.portionCost(portion{p.node, p.units + n})
				for j := range c {
					c[j] += costs[sum-n][j]
				}
				if n == 0 || slices.Compare(c[:], next[sum][:]) < 0 {
					next[sum], given[i][sum] = c, n
				}
			}
		}
		costs = next
	}
	for i := range slices.Backward(all) {
		all[i].units += given[i][left]
		left -= given[i][left]
	}
}

func (d *distribution) costOf(portions []portion) (distributionCost, bool) {
	var c distributionCost
	var cells []int32
	for _, p := range portions {
		s := d.shareCost(p)
		if !s.ok {
			return c, false
		}
		c[2] += int64(p.units) * int64(p.units)
		c[1] += int64(s.parts)
		c[4] += int64(s.l3s)
		cells = append(cells, d.nodes[p.node].cells...)
	}
	var in cost
	d.q.costOfCells(cells, &in)
	if d.q.byPackage {
		c[0] = int64(in[costPackages])
		if d.q.limit > 0 && in[costPackages] > int32(d.q.limit) {
			return c, false
		}
	}
	c[3] = int64(in[costPackages])
	for i := range d.nodes {
		free := int64(d.nodes[i].tally[0])
		for _, p := range portions {
			if int(p.node) == i {
				free -= int64(p.units) * int64(d.unit)
			}
		}
		c[5] += free * free
	}
	c[6] = int64(in[costDistance])
	return c, true
}

// shareCost is what it costs to take a portion from its node.
func (d *distribution) shareCost(p portion) shareCost {
	if p.units == 0 {
		return shareCost{ok: true}
	}
	key := [2]int32{p.node, p.units}
	if c, ok := d.memo[key]; ok {
		return c
	}
	sub := d.search(d.nodes[p.node].cells, int(p.units)*d.unit)
	c := shareCost{ok: sub.run()}
	c.parts, c.l3s = sub.best.cost[costParts], sub.best.cost[costL3s]
	d.q.considered += sub.considered
	d.memo[key] = c
	return c
}

// search looks for n CPUs in the cells of one node.
func (d *distribution) search(cells []int32, n int) *search {
	sub := *d.q
	sub.n, sub.limit, sub.considered = n, 0, 0
	sub.groups, sub.chosen, sub.sum, sub.cells = nil, nil, nil, nil
	sub.caches, sub.found, sub.best = caches{}, false, choice{}
	sub.allowed = make([]bool, len(d.q.m.cells))
	for _, c := range cells {
		sub.allowed[c] = true
	}
	return &sub
}
