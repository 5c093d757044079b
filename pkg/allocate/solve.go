package allocate

// solve picks the needed CPUs from the allowed cells; nil allows all cells. If limit is not 0, it
// uses at most limit nodes (packages with align-by-socket). If that is not possible, it picks
// none and returns false.
func (p *placing) solve(allowed []bool, limit int) bool {
	if p.need() == 0 {
		return true
	}
	o := &p.a.r.Options
	p.newSearch(allowed, limit)
	if o.DistributeCPUsAcrossNUMA && p.q.distribute() {
		return true
	}
	if o.DistributeCPUsAcrossCores && limit == 0 {
		p.takeWholeGroups(allowed)
		if p.need() == 0 {
			return true
		}
		p.newSearch(allowed, limit)
	}
	if !p.q.run() {
		return false
	}
	p.q.fill(p.q.best.leaves)
	return true
}

// newSearch prepares q for the CPUs that are still needed.
func (p *placing) newSearch(allowed []bool, limit int) {
	m, o := p.v.m, &p.a.r.Options
	p.q = search{
		scratch: p.q.scratch,
		m:       m, v: p.v, n: p.need(), limit: limit, allowed: allowed,
		byPackage:   o.AlignBySocket || o.DistributeCPUsAcrossCores && limit == 0,
		cachesFirst: o.PreferAlignCPUsByUncoreCache,
		spread:      o.DistributeCPUsAcrossCores,
		whole:       o.FullPCPUsOnly,
		considered:  p.q.considered,
		steps:       p.q.steps,
	}
	nodes, packages, l3s := len(m.cellsOfNode), len(m.cellsOfPackage), len(m.topology.L3s)
	p.q.reuse()
	marks := p.q.marks
	next := func(n int) []bool {
		s := marks[:n:n]
		marks = marks[n:]
		return s
	}
	q := &p.q
	q.inNode, q.inPackage, q.inL3 = next(nodes), next(packages), next(l3s)
	q.nearNode, q.nearPackage, q.nearL3 = next(nodes), next(packages), next(l3s)
	if len(p.v.own) > 0 || len(p.v.picked) > 0 {
		for cpu := range eachBit(p.v.have) {
			q.markBase(m.core[cpu])
		}
	}
	for cpu := range p.a.r.Near.All() {
		if core := m.coreOf(cpu); core != none {
			q.markNear(core)
		}
	}
	if p.hinted != nil {
		q.hintedNodes = p.hinted
		for i := range m.topology.Nodes {
			q.nearNode[i] = q.nearNode[i] || p.a.r.Nodes.Contains(m.topology.Nodes[i].ID)
		}
	}
	q.order = q.sequence()
}

// markBase enters where the owner is with a core.
func (q *search) markBase(core int32) {
	q.markNear(core)
	leaf := &q.m.leaves[q.m.cores[core].leaf]
	cell := &q.m.cells[leaf.cell]
	q.baseNodes += toInt(!q.inNode[cell.node])
	q.basePackages += toInt(!q.inPackage[cell.pkg])
	q.baseL3s += toInt(!q.inL3[leaf.l3])
	q.inNode[cell.node], q.inPackage[cell.pkg], q.inL3[leaf.l3] = true, true, true
}

// markNear enters where the owner or a companion is with a core.
func (q *search) markNear(core int32) {
	leaf := &q.m.leaves[q.m.cores[core].leaf]
	cell := &q.m.cells[leaf.cell]
	q.nearL3s += toInt(!q.nearL3[leaf.l3])
	q.nearNode[cell.node], q.nearPackage[cell.pkg], q.nearL3[leaf.l3] = true, true, true
}

// takeWholeGroups picks the packages and nodes that are completely free and no larger
// than the request, the outer ones first, before threads are spread over cores. A request
// for a whole node gets all of its cores, and no other node. Packages where the owner has
// CPUs come first, then the fullest that has enough for the whole request, then the
// emptiest.
func (p *placing) takeWholeGroups(allowed []bool) {
	m := p.v.m
	outer, inner := m.cellsOfPackage, m.cellsOfNode
	if len(outer) >= len(inner) {
		outer, inner = inner, outer
	}
	for _, groups := range [...][][]int32{outer, inner} {
		for {
			var best []int32
			for _, cells := range groups {
				n := p.wholeGroup(cells, allowed)
				if n > 0 && n <= p.need() && (best == nil || p.closer(cells, best)) {
					best = cells
				}
			}
			if best == nil {
				break
			}
			p.takeCells(best)
		}
	}
}

// closer reports whether the package of cells is better than the package of others.
func (p *placing) closer(cells, others []int32) bool {
	a, b := p.v.m.cells[cells[0]].pkg, p.v.m.cells[others[0]].pkg
	if inA, inB := p.inPackage(a), p.inPackage(b); inA != inB {
		return inA
	}
	usableA, usableB := p.usableIn(p.v.m.cellsOfPackage[a]), p.usableIn(p.v.m.cellsOfPackage[b])
	if fitsA, fitsB := usableA >= p.need(), usableB >= p.need(); fitsA != fitsB || !fitsA {
		return usableA > usableB
	}
	return usableA < usableB
}

// inPackage reports whether the owner has CPUs in a package.
func (p *placing) inPackage(pkg int32) bool {
	m := p.v.m
	for cpu := range eachBit(p.v.have) {
		if m.cells[m.leaves[m.cores[m.core[cpu]].leaf].cell].pkg == pkg {
			return true
		}
	}
	return false
}

func (p *placing) usableIn(cells []int32) int {
	n := 0
	for _, c := range cells {
		n += p.v.cells[c].cpus()
	}
	return n
}

// wholeGroup is the number of CPUs of cells if all of them are usable, otherwise 0.
func (p *placing) wholeGroup(cells []int32, allowed []bool) int {
	n := 0
	for _, c := range cells {
		if allowed != nil && !allowed[c] {
			return 0
		}
		n += p.v.cells[c].cpus()
	}
	for core := range p.v.m.coresIn(cells) {
		if int(p.v.coreFree[core]) < len(p.v.m.cores[core].threads) {
			return 0
		}
	}
	return n
}

// takeCells picks all that is usable in cells.
func (p *placing) takeCells(cells []int32) {
	for core := range p.v.m.coresIn(cells) {
		if n := int(p.v.coreFree[core]); n > 0 {
			p.v.take(core, n)
		}
	}
}
