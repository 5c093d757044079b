package defrag

import "github.com/cpupoold/cpupoold/pkg/cpuset"

// fewGroups is the number of groups up to which all unions of them are tried.
const fewGroups = 8

// parts returns the parts of open CPUs in which owner i is to be tried, those that
// promise most first. The allocator weighs one thing against another, and here nothing may get worse: in
// a part that touches no more of the machine than the owner does, it cannot.
func (n *node) parts(i int, open cpuset.Set) [][]cpuset.Set {
	p := &partition{size: n.owners[i].CPUs.Len(), at: n.at[i]}
	if near, counts := n.hinted(&n.owners[i]); counts {
		p.near = near
	}
	p.add(open)
	groups := n.groups(open)
	if len(groups) <= fewGroups {
		p.unions(groups)
		return [][]cpuset.Set{p.all}
	}
	var own cpuset.Set
	touched := 0
	for _, g := range groups {
		if g.Overlaps(n.at[i]) {
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
		if g.Overlaps(n.at[i]) {
			p.add(own.Difference(g))
		}
	}
	first := len(p.all)
	for j := 0; j < len(groups) && touched > 1; j++ { // with one, a pair is more than it has
		for _, other := range groups[:j] {
			p.add(groups[j].Union(other))
		}
	}
	return [][]cpuset.Set{p.all[:first], p.all[first:]}
}

// groups returns the CPUs among cpus by what cache, node and package they share.
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
	all      []cpuset.Set
	seen     map[string]bool
}

// add adds a part that is large enough, and, where hints count, what of it is as
// near as what the owner has.
func (p *partition) add(part cpuset.Set) {
	p.put(part)
	if !p.near.IsEmpty() {
		p.put(part.Intersection(p.near))
		p.put(part.Intersection(p.near.Union(p.at)))
	}
}

func (p *partition) put(part cpuset.Set) {
	name := part.String()
	if part.Len() < p.size || p.seen[name] {
		return
	}
	if p.seen == nil {
		p.seen = make(map[string]bool)
	}
	p.seen[name] = true
	p.all = append(p.all, part)
}

// unions adds all unions of groups.
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
