package defrag

import (
	"iter"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// fewGroups is the number of groups up to which all unions of them are tried.
const fewGroups = 8

// parts yields the parts of open CPUs in which owner i should be tried, the best
// candidates first. The second value is true for the last ones, which are many.
// All have some of gained. The allocator trades one place of a measure for another, but a
// move must worsen none. In a part that touches no more of the machine than the
// owner does, it cannot.
func (n *node) parts(i int, open, gained cpuset.Set) iter.Seq2[cpuset.Set, bool] {
	p := &partition{size: n.owners[i].CPUs.Len(), at: n.at[i], gained: gained}
	if near, counts := n.hinted(&n.owners[i]); counts {
		p.near = near
	}
	p.add(open)
	groups := n.groups(open)
	touched := 0
	if len(groups) <= fewGroups {
		p.unions(groups)
	} else {
		touched = n.addParts(p, groups, open)
	}
	return func(yield func(cpuset.Set, bool) bool) {
		for _, part := range p.all {
			if !yield(part, false) {
				return
			}
		}
		if touched > 1 { // with one, a pair is more than it has
			p.pairs(groups, yield)
		}
	}
}

// addParts adds the part of groups that the owner touches, nodes, packages and single
// groups, and returns the number of groups that it touches.
func (n *node) addParts(p *partition, groups []cpuset.Set, open cpuset.Set) int {
	var own cpuset.Set
	touched := 0
	for _, g := range groups {
		if g.Overlaps(p.at) {
			own = own.Union(g)
			touched++
		}
	}
	p.add(own)
	for j := range n.topology.Nodes {
		p.add(open.Intersection(n.topology.Nodes[j].CPUs))
	}
	for j := range n.topology.Packages {
		p.add(open.Intersection(n.topology.Packages[j].CPUs))
	}
	for _, g := range groups {
		p.add(g)
		if g.Overlaps(p.at) {
			p.add(own.Difference(g))
		}
	}
	return touched
}

// groups returns the CPUs among cpus by their cache, node and package.
func (n *node) groups(cpus cpuset.Set) []cpuset.Set {
	type place struct{ l3, node, pkg int }
	index := make(map[place]int)
	var members [][]int
	for id := range cpus.All() {
		cpu, ok := n.topology.CPU(id)
		if !ok {
			continue
		}
		at := place{cpu.L3, cpu.Node, cpu.Package}
		i, known := index[at]
		if !known {
			i = len(members)
			index[at] = i
			members = append(members, nil)
		}
		members[i] = append(members[i], id)
	}
	groups := make([]cpuset.Set, len(members))
	for i := range members {
		groups[i] = cpuset.Of(members[i]...)
	}
	return groups
}

// partition collects parts, each of them once.
type partition struct {
	size     int        // of the owner
	at, near cpuset.Set // of the owner, and the CPUs of its hinted nodes
	gained   cpuset.Set
	all      []cpuset.Set
	seen     map[string]bool
}

// add adds a part that is of use, and, where hints count, what of it is as near as
// what the owner has.
func (p *partition) add(part cpuset.Set) {
	for _, part := range p.variants(part) {
		if p.seen == nil {
			p.seen = make(map[string]bool)
		}
		if name := part.String(); !p.seen[name] {
			p.seen[name] = true
			p.all = append(p.all, part)
		}
	}
}

// variants returns a part and the nearer parts of it that are large enough and have some
// of gained.
func (p *partition) variants(part cpuset.Set) []cpuset.Set {
	all := append(make([]cpuset.Set, 0, 3), part)
	if !p.near.IsEmpty() {
		all = append(all, part.Intersection(p.near), part.Intersection(p.near.Union(p.at)))
	}
	return slices.DeleteFunc(all, func(s cpuset.Set) bool { return s.Len() < p.size || !s.Overlaps(p.gained) })
}

func (p *partition) unions(groups []cpuset.Set) {
	for choice := 1; choice < 1<<len(groups); choice++ {
		var part cpuset.Set
		for i, g := range groups {
			if choice&(1<<i) != 0 {
				part = part.Union(g)
			}
		}
		p.add(part)
	}
}

// pairs yields the pairs of groups. There may be tens of thousands, so each is computed
// when it is needed, and useless pairs are never computed.
func (p *partition) pairs(groups []cpuset.Set, yield func(cpuset.Set, bool) bool) {
	sizes, gains := make([]int, len(groups)), make([]bool, len(groups))
	for i, g := range groups {
		sizes[i], gains[i] = g.Len(), g.Overlaps(p.gained)
		for j, other := range groups[:i] {
			if sizes[i]+sizes[j] < p.size || !gains[i] && !gains[j] {
				continue
			}
			for _, part := range p.variants(g.Union(other)) {
				if !yield(part, true) {
					return
				}
			}
		}
	}
}
