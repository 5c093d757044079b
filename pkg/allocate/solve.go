package allocate

// solve picks the needed CPUs from the allowed cells; nil allows all cells. If limit is not 0, it
// uses at most limit nodes (packages with align-by-socket). If that is not possible, it picks
// none and returns false.
func (s *Supply) solve(allowed []bool, limit int) bool {
	if s.need() == 0 {
		return true
	}
	o := &s.request.Options
	s.newSearch(allowed, limit)
	if o.DistributeCPUsAcrossNUMA && s.search.distribute() {
		return true
	}
	if o.DistributeCPUsAcrossCores && limit == 0 {
		s.takeWholeGroups(allowed)
		if s.need() == 0 {
			return true
		}
		s.newSearch(allowed, limit)
	}
	if !s.search.run() {
		return false
	}
	s.search.fill(s.search.best.leaves)
	return true
}

// newSearch prepares the search for the CPUs that are still needed.
func (s *Supply) newSearch(allowed []bool, limit int) {
	m, o := s.m, &s.request.Options
	s.search = search{
		scratch: &s.scratch,
		m:       m, v: &s.view, n: s.need(), limit: limit, allowed: allowed,
		byPackage:   o.AlignBySocket || o.DistributeCPUsAcrossCores && limit == 0,
		cachesFirst: o.PreferAlignCPUsByUncoreCache,
		spread:      o.DistributeCPUsAcrossCores,
		whole:       o.FullPCPUsOnly,
		considered:  s.search.considered,
		steps:       s.search.steps,
	}
	nodes, packages, l3s := len(m.cellsOfNode), len(m.cellsOfPackage), len(m.topology.L3s)
	s.search.reuse()
	marks := s.search.marks
	next := func(n int) []bool {
		part := marks[:n:n]
		marks = marks[n:]
		return part
	}
	q := &s.search
	q.inNode, q.inPackage, q.inL3 = next(nodes), next(packages), next(l3s)
	q.nearNode, q.nearPackage, q.nearL3 = next(nodes), next(packages), next(l3s)
	if len(s.view.own) > 0 || len(s.view.picked) > 0 {
		for cpu := range eachBit(s.view.have) {
			q.markBase(m.core[cpu])
		}
	}
	for cpu := range s.request.Near.All() {
		if core := m.coreOf(cpu); core != none {
			q.markNear(core)
		}
	}
	if s.hinted != nil {
		q.hintedNodes = s.hinted
		for i := range m.topology.Nodes {
			q.nearNode[i] = q.nearNode[i] || s.request.Nodes.Contains(m.topology.Nodes[i].ID)
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
func (s *Supply) takeWholeGroups(allowed []bool) {
	m := s.m
	outer, inner := m.cellsOfPackage, m.cellsOfNode
	if len(outer) >= len(inner) {
		outer, inner = inner, outer
	}
	for _, groups := range [...][][]int32{outer, inner} {
		for {
			var best []int32
			for _, cells := range groups {
				n := s.wholeGroup(cells, allowed)
				if n > 0 && n <= s.need() && (best == nil || s.closer(cells, best)) {
					best = cells
				}
			}
			if best == nil {
				break
			}
			for core := range s.m.coresIn(best) {
				if n := int(s.view.coreFree[core]); n > 0 {
					s.view.take(core, n)
				}
			}
		}
	}
}

// closer reports whether the package of cells is better than the package of others.
func (s *Supply) closer(cells, others []int32) bool {
	a, b := s.m.cells[cells[0]].pkg, s.m.cells[others[0]].pkg
	if inA, inB := s.inPackage(a), s.inPackage(b); inA != inB {
		return inA
	}
	usableA, usableB := s.usableIn(s.m.cellsOfPackage[a]), s.usableIn(s.m.cellsOfPackage[b])
	if fitsA, fitsB := usableA >= s.need(), usableB >= s.need(); fitsA != fitsB || !fitsA {
		return usableA > usableB
	}
	return usableA < usableB
}

func (s *Supply) inPackage(pkg int32) bool {
	m := s.m
	for cpu := range eachBit(s.view.have) {
		if m.cells[m.leaves[m.cores[m.core[cpu]].leaf].cell].pkg == pkg {
			return true
		}
	}
	return false
}

func (s *Supply) usableIn(cells []int32) int {
	n := 0
	for _, c := range cells {
		n += s.view.cells[c].cpus()
	}
	return n
}

// wholeGroup is the number of CPUs of cells if all of them are usable, otherwise 0.
func (s *Supply) wholeGroup(cells []int32, allowed []bool) int {
	n := 0
	for _, c := range cells {
		if allowed != nil && !allowed[c] {
			return 0
		}
		n += s.view.cells[c].cpus()
	}
	for core := range s.m.coresIn(cells) {
		if int(s.view.coreFree[core]) < len(s.m.cores[core].threads) {
			return 0
		}
	}
	return n
}
