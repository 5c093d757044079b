package allocate

import (
	"cmp"
	"slices"
)

// maxSteps bounds what the combinations of a distribution cost, each of which is
// weighed in a time that grows with the cube of its nodes. A step takes a few
// nanoseconds.
const maxSteps = 1 << 22

// distribution looks for the nodes to take an even share of CPUs from each.
type distribution struct {
	q     *search
	unit  int // number of CPUs that are given together
	nodes []share
	// bySize are the nodes by their capacity, and byPackage the nodes of the
	// packages with the most capacity; the largest first.
	bySize, byPackage []int32
	free              int64 // sum of the squares of the usable CPUs in each node

	chosen []int32 // of nodes, by index
	found  bool
	cost   distributionCost
	best   []portion
}

// share is a node with its capacity.
type share struct {
	cells []int32
	tally tally
	units int
	costs []shareCost // costs of shares, by their number of units, as far as known
}

// portion is a node's part of the CPUs.
type portion struct{ node, units int32 }

// shareCost is the cost of a share in cores in part and caches, and the leaves to take it from.
type shareCost struct {
	known, ok  bool
	parts, l3s int32
	leaves     []int32
}

// distributionCost orders the distributions over one number of nodes. It begins with
// packages (with align-by-socket), cores in part, the sum of the shares' squares, and
// packages. Then follow caches, the sum of the squares of the CPUs that stay free in each
// node, and the distance.
type distributionCost [7]int64

// distribute picks q.n CPUs in even shares from as few nodes as can give them. It returns
// false, with nothing picked, if no nodes can, or if it finds none within the bounds.
func (q *search) distribute() bool {
	var all []*distribution // by unit
	for unit := range q.units {
		d := &distribution{q: q, unit: unit}
		d.collect()
		all = append(all, d)
	}
	for size := range q.sizesOfShares {
		for _, d := range all {
			if size > min(len(d.nodes), q.n/d.unit, d.within(q.limit)) || d.exhausted() || !d.enough(d.bySize[:size]) {
				continue
			}
			if d.try(size); d.found {
				for _, p := range d.best {
					d.fill(p)
				}
				return true
			}
		}
	}
	return false
}

// sizesOfShares yields the numbers of nodes to try, from the smallest. With a hint it starts
// at the number of hinted nodes, because the devices are in all of them, as with the kubelet
// (kubernetes#139430).
func (q *search) sizesOfShares(yield func(int) bool) {
	all, hinted := len(q.m.cellsOfNode), 0
	for _, is := range q.hintedNodes {
		hinted += int(toInt(is))
	}
	first := max(hinted, 1)
	for i := range all {
		if size := (first-1+i)%all + 1; !yield(size) {
			return
		}
	}
}

// units yields the units of shares, the smallest first: a single CPU, or with whole cores the
// greatest number that divides the threads of all cores. If shares of this unit do not add
// up to whole cores, because a core has fewer online threads than others, larger units do.
func (q *search) units(yield func(int) bool) {
	if !q.whole {
		yield(1)
		return
	}
	for unit := q.m.Group(); unit <= q.m.threads; unit += q.m.Group() {
		if q.n%unit == 0 && !yield(unit) {
			return
		}
	}
}

func (d *distribution) fill(p portion) {
	sub := d.search(p)
	if c := d.shareCost(p); c.known {
		sub.fill(c.leaves)
		return
	}
	sub.run()
	sub.fill(sub.best.leaves)
	d.q.considered = sub.considered
}

// exhausted reports whether the search ends with the best distribution so far, if any.
func (d *distribution) exhausted() bool {
	return d.q.considered > maxCombinations || d.q.steps > maxSteps
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
			d.bySize = append(d.bySize, int32(len(d.nodes)))
			d.nodes = append(d.nodes, s)
			d.free += int64(s.tally[0]) * int64(s.tally[0])
		}
	}
	slices.SortStableFunc(d.bySize, func(a, b int32) int { return cmp.Compare(d.nodes[b].units, d.nodes[a].units) })
	if !d.q.byPackage {
		return
	}
	room := make([]int, len(d.q.m.cellsOfPackage))
	pkg := func(i int32) int32 { return d.q.m.cells[d.nodes[i].cells[0]].pkg }
	for i := range d.nodes {
		room[pkg(int32(i))] += d.nodes[i].units
	}
	d.byPackage = slices.Clone(d.bySize)
	slices.SortStableFunc(d.byPackage, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(toInt(d.q.inPackage[pkg(b)]), toInt(d.q.inPackage[pkg(a)])),
			cmp.Compare(room[pkg(b)], room[pkg(a)]), cmp.Compare(pkg(a), pkg(b)))
	})
}

// within is how many nodes limit groups can have at most; 0 stands for no limit.
func (d *distribution) within(limit int) int {
	if limit == 0 {
		return len(d.nodes)
	}
	if !d.q.byPackage {
		return limit
	}
	in := make([]int, len(d.q.m.cellsOfPackage))
	for i := range d.nodes {
		for _, c := range d.nodes[i].cells {
			in[d.q.m.cells[c].pkg]++
		}
	}
	slices.Sort(in)
	most := 0
	for _, n := range in[max(0, len(in)-limit):] {
		most += n
	}
	return most
}

// enough reports whether each of the nodes has its share, and all of them together
// the rest. With align-by-socket a node may provide less than an even share.
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
// too many, only the largest.
func (d *distribution) try(size int) {
	if combinations(len(d.nodes), size) <= maxCombinations-d.q.considered {
		d.extend(0, size)
		return
	}
	for _, order := range [...][]int32{d.bySize, d.byPackage} {
		if len(order) > 0 {
			d.chosen = append(d.chosen[:0], order[:size]...)
			slices.Sort(d.chosen)
			d.consider()
		}
	}
	d.chosen = d.chosen[:0]
}

func (d *distribution) extend(from, size int) {
	if size == 0 {
		d.consider()
		return
	}
	for i := from; i <= len(d.nodes)-size && !d.exhausted(); i++ {
		d.chosen = append(d.chosen, int32(i))
		d.extend(i+1, size-1)
		d.chosen = d.chosen[:len(d.chosen)-1]
	}
}

func (d *distribution) consider() {
	d.q.considered++
	if !d.enough(d.chosen) || !d.inLimit() {
		return
	}
	portions := d.portions()
	c, ok := d.costOf(portions)
	if !ok || d.found && slices.Compare(c[:], d.cost[:]) >= 0 {
		return
	}
	d.found, d.cost, d.best = true, c, portions
}

// inLimit reports whether the chosen nodes are in no more packages than allowed,
// if packages have priority.
func (d *distribution) inLimit() bool {
	if d.q.limit == 0 || !d.q.byPackage {
		return true
	}
	in := slices.Clone(d.q.inPackage)
	n := int(d.q.basePackages)
	for _, i := range d.chosen {
		for _, c := range d.nodes[i].cells {
			pkg := d.q.m.cells[c].pkg
			n += int(toInt(!in[pkg]))
			in[pkg] = true
		}
	}
	return n <= d.q.limit
}

// portions divides the units as evenly as the chosen nodes allow. It adds the remaining
// units to the nodes where that splits the fewest cores.
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

func (d *distribution) costOf(portions []portion) (distributionCost, bool) {
	c := distributionCost{5: d.free}
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
		free, taken := int64(d.nodes[p.node].tally[0]), int64(p.units)*int64(d.unit)
		c[5] += (free-taken)*(free-taken) - free*free
	}
	d.q.steps += len(cells) * len(cells) * (len(cells) + 6) / 6 // each pair, and the distances of each pair
	var in cost
	d.q.costOfCells(cells, &in)
	if d.q.byPackage {
		c[0] = int64(in[costPackages])
	}
	c[3] = int64(in[costPackages])
	c[6] = int64(in[costDistance])
	return c, true
}

// shareCost returns the cost of a portion. After the search is
// exhausted the cost omits caches, and is not cached.
func (d *distribution) shareCost(p portion) shareCost {
	if p.units == 0 {
		return shareCost{known: true, ok: true}
	}
	s := &d.nodes[p.node]
	if s.costs == nil {
		s.costs = make([]shareCost, s.units+1)
	}
	c := &s.costs[p.units]
	if c.known {
		return *c
	}
	sub := d.search(p)
	if d.exhausted() {
		parts, _, ok := sub.cover(s.tally)
		return shareCost{ok: ok, parts: int32(parts)}
	}
	*c = shareCost{known: true, ok: sub.run(), leaves: sub.best.leaves}
	c.parts, c.l3s = sub.best.cost[costParts], sub.best.cost[costL3s]
	d.q.considered = sub.considered
	return *c
}

// search looks for the CPUs of a portion in its node.
func (d *distribution) search(p portion) *search {
	sub := *d.q
	sub.n, sub.limit = int(p.units)*d.unit, 0
	sub.scratch, sub.found, sub.best = new(scratch), false, choice{} // d keeps the result
	sub.allowed = make([]bool, len(d.q.m.cells))
	for _, c := range d.nodes[p.node].cells {
		sub.allowed[c] = true
	}
	return &sub
}
