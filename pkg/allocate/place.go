package allocate

import (
	"fmt"
	"slices"
	"strings"
)

// placing finds the CPUs of one attempt, under the topology policy.
type placing struct {
	a *attempt
	v *view
	f filter
	// hinted marks the nodes of the hint, by index; nil without a hint.
	hinted []bool
	q      search
}

// need is how many CPUs have still to be picked.
func (p *placing) need() int { return p.a.r.CPUs - len(p.v.picked) }

// total is the number of CPUs that the owner has afterwards.
func (p *placing) total() int { return p.need() + count(p.v.have) }

func (p *placing) run() *Refusal {
	if p.need() == 0 {
		return nil
	}
	o := &p.a.r.Options
	if o.TopologyPolicy != None {
		p.hint()
	}
	switch o.TopologyPolicy {
	case SingleNUMANode:
		if !p.solve(p.hintedCells(true), 1) {
			most := p.most(p.v.m.cellsOfNode, 1)
			p.a.never = fmt.Sprintf("no NUMA node %scan ever have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
				p.hintText(), p.total(), most, SingleNUMANode, most, BestEffort)
			return p.a.refuse(NotOnOneNode, most,
				"no NUMA node %shas room for all (topology-policy: %s); request fewer, set topology-policy: %s, or see "+defragment, p.hintText(), SingleNUMANode, BestEffort)
		}
		return nil
	case Restricted:
		return p.restricted()
	case "", BestEffort:
		if p.hinted != nil && p.preferHinted() {
			return nil
		}
	}
	if !p.solve(nil, 0) {
		return p.a.refuseFragments()
	}
	return nil
}

// hint finds the hinted nodes that have CPUs; with align-by-socket all nodes of
// their packages, as with the kubelet.
func (p *placing) hint() {
	m := p.v.m
	for i := range m.topology.Nodes {
		if p.a.r.Nodes.Contains(m.topology.Nodes[i].ID) && len(m.cellsOfNode[i]) > 0 {
			if p.hinted == nil {
				p.hinted = make([]bool, len(m.cellsOfNode))
			}
			p.hinted[i] = true
		}
	}
	if p.hinted == nil || !p.a.r.Options.AlignBySocket {
		return
	}
	for _, cells := range m.cellsOfPackage {
		in := false
		for _, c := range cells {
			in = in || p.hinted[m.cells[c].node]
		}
		for _, c := range cells {
			p.hinted[m.cells[c].node] = p.hinted[m.cells[c].node] || in
		}
	}
}

// hintedCells marks the cells in hinted nodes (in true) or in the others. It is
// nil without a hint.
func (p *placing) hintedCells(in bool) []bool {
	if p.hinted == nil {
		return nil
	}
	cells := make([]bool, len(p.v.m.cells))
	for i := range cells {
		cells[i] = p.hinted[p.v.m.cells[i].node] == in
	}
	return cells
}

func (p *placing) hintText() string {
	if p.hinted == nil {
		return ""
	}
	return "of " + p.a.r.Nodes.String() + " (of the devices and memory) "
}

// preferHinted takes all CPUs from the hinted nodes, or their CPUs and the rest
// from others, as the kubelet does. It returns false, with no CPU picked, if
// their CPUs cannot be part of a solution.
func (p *placing) preferHinted() bool {
	inside := p.hintedCells(true)
	if p.solve(inside, 0) {
		return true
	}
	usable := 0
	for i, t := range p.v.cells {
		if inside[i] {
			usable += t.cpus()
		}
	}
	if usable >= p.need() {
		return false // whole cores that do not add up
	}
	for i := range p.v.m.cores {
		if n := p.v.coreFree[i]; n > 0 && inside[p.v.m.leaves[p.v.m.cores[i].leaf].cell] {
			p.v.take(int32(i), int(n))
		}
	}
	if p.need() == 0 || p.solve(p.hintedCells(false), 0) {
		return true
	}
	p.a.start(&p.f)
	return false
}

// restricted refuses a request that needs more nodes than on the empty machine.
func (p *placing) restricted() *Refusal {
	total := p.total()
	if p.hinted != nil {
		room := 0
		for i, cells := range p.v.m.cellsOfNode {
			if p.hinted[i] {
				room += p.room(cells)
			}
		}
		if room >= total {
			if !p.solve(p.hintedCells(true), 0) {
				most := p.most(p.v.m.cellsOfNode, len(p.hinted))
				p.a.never = fmt.Sprintf("NUMA nodes %s of the devices and memory can never have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
					p.a.r.Nodes, total, most, Restricted, most, BestEffort)
				return p.a.refuse(NotOnHintedNodes, most,
					"NUMA nodes %s of the devices and memory have too few left (topology-policy: %s); wait until others end, set topology-policy: %s, or see "+defragment,
					p.a.r.Nodes, Restricted, BestEffort)
			}
			return nil
		}
	}
	lists, groups := p.v.m.cellsOfNode, "NUMA nodes"
	if p.a.r.Options.AlignBySocket {
		lists, groups = p.v.m.cellsOfPackage, "packages"
	}
	limit := p.fewestWhenEmpty(lists, total)
	if !p.solve(nil, limit) {
		most := p.most(lists, limit)
		which := fmt.Sprintf("%d %s can never", limit, groups)
		if limit == 1 {
			which = "no " + strings.TrimSuffix(groups, "s") + " can ever"
		}
		p.a.never = fmt.Sprintf("%s have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
			which, total, most, Restricted, most, BestEffort)
		return p.a.refuse(NotOnFewestNodes, most,
			"%s that are enough on the empty machine: %d, and now they are not (topology-policy: %s); request fewer, set topology-policy: %s, or see "+defragment,
			groups, limit, Restricted, BestEffort)
	}
	return nil
}

// room is the number of CPUs of cells that the filter admits on an empty machine.
func (p *placing) room(cells []int32) int {
	n := 0
	for core := range p.v.m.coresIn(cells) {
		for _, cpu := range p.v.m.cores[core].threads {
			n += int(toInt(p.f.admits(int(cpu))))
		}
	}
	return n
}

func (f *filter) admits(cpu int) bool {
	return (f.isolated == nil || hasBit(f.isolated, cpu)) &&
		(f.coreType == nil || hasBit(f.coreType, cpu)) &&
		(f.without == nil || !hasBit(f.without, cpu))
}

// fewestWhenEmpty is the number of the groups of cells that n CPUs need if no other
// owner has CPUs.
func (p *placing) fewestWhenEmpty(groups [][]int32, n int) int {
	rooms := make([]int, 0, len(groups))
	for _, cells := range groups {
		rooms = append(rooms, p.room(cells))
	}
	slices.Sort(rooms)
	for i, room := range slices.Backward(rooms) {
		if n -= room; n <= 0 {
			return len(rooms) - i
		}
	}
	return len(rooms)
}

// most is the maximum number of CPUs in n of the groups of cells, including picked ones. With
// a hint only hinted nodes count.
func (p *placing) most(groups [][]int32, n int) int {
	var rooms []int
	for _, cells := range groups {
		room := 0
		for _, c := range cells {
			if p.hinted == nil || p.hinted[p.v.m.cells[c].node] {
				room += p.v.cells[c].cpus()
			}
		}
		rooms = append(rooms, room)
	}
	slices.Sort(rooms)
	most := len(p.v.picked)
	for _, room := range rooms[max(0, len(rooms)-n):] {
		most += room
	}
	return most
}
