package allocate

import (
	"fmt"
	"slices"
	"strings"
)

// need is how many CPUs have still to be picked.
func (s *Supply) need() int { return s.request.CPUs - len(s.view.picked) }

// total is the number of CPUs that the owner has afterwards.
func (s *Supply) total() int { return s.need() + count(s.view.have) }

// place picks the CPUs of one attempt, under the topology policy.
func (s *Supply) place() *Refusal {
	if s.need() == 0 {
		return nil
	}
	o := &s.request.Options
	if o.TopologyPolicy != None {
		s.hint()
	}
	switch o.TopologyPolicy {
	case SingleNUMANode:
		if !s.solve(s.hintedCells(true), 1) {
			most := s.most(s.m.cellsOfNode, 1)
			s.never = fmt.Sprintf("no NUMA node %scan ever have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
				s.hintText(), s.total(), most, SingleNUMANode, most, BestEffort)
			return s.refuse(NotOnOneNode, most,
				"no NUMA node %shas room for all (topology-policy: %s); request fewer, set topology-policy: %s, or see "+defragment, s.hintText(), SingleNUMANode, BestEffort)
		}
		return nil
	case Restricted:
		return s.restricted()
	case "", BestEffort:
		if s.hinted != nil && s.preferHinted() {
			return nil
		}
	}
	if !s.solve(nil, 0) {
		return s.refuseFragments()
	}
	return nil
}

// hint finds the hinted nodes that have CPUs; with align-by-socket all nodes of
// their packages, as with the kubelet.
func (s *Supply) hint() {
	m := s.m
	for i := range m.topology.Nodes {
		if s.request.Nodes.Contains(m.topology.Nodes[i].ID) && len(m.cellsOfNode[i]) > 0 {
			if s.hinted == nil {
				s.hinted = make([]bool, len(m.cellsOfNode))
			}
			s.hinted[i] = true
		}
	}
	if s.hinted == nil || !s.request.Options.AlignBySocket {
		return
	}
	for _, cells := range m.cellsOfPackage {
		in := false
		for _, c := range cells {
			in = in || s.hinted[m.cells[c].node]
		}
		for _, c := range cells {
			s.hinted[m.cells[c].node] = s.hinted[m.cells[c].node] || in
		}
	}
}

// hintedCells marks the cells in hinted nodes (in true) or in the others. It is
// nil without a hint.
func (s *Supply) hintedCells(in bool) []bool {
	if s.hinted == nil {
		return nil
	}
	cells := make([]bool, len(s.m.cells))
	for i := range cells {
		cells[i] = s.hinted[s.m.cells[i].node] == in
	}
	return cells
}

func (s *Supply) hintText() string {
	if s.hinted == nil {
		return ""
	}
	return "of " + s.request.Nodes.String() + " (of the devices and memory) "
}

// preferHinted takes all CPUs from the hinted nodes, or their CPUs and the rest
// from others, as the kubelet does. It returns false, with no CPU picked, if
// their CPUs cannot be part of a solution.
func (s *Supply) preferHinted() bool {
	inside := s.hintedCells(true)
	if s.solve(inside, 0) {
		return true
	}
	usable := 0
	for i, t := range s.view.cells {
		if inside[i] {
			usable += t.cpus()
		}
	}
	if usable >= s.need() {
		return false // whole cores that do not add up
	}
	for i := range s.m.cores {
		if n := s.view.coreFree[i]; n > 0 && inside[s.m.leaves[s.m.cores[i].leaf].cell] {
			s.view.take(int32(i), int(n))
		}
	}
	if s.need() == 0 || s.solve(s.hintedCells(false), 0) {
		return true
	}
	s.start()
	return false
}

// restricted refuses a request that needs more nodes than on the empty machine.
func (s *Supply) restricted() *Refusal {
	total := s.total()
	if s.hinted != nil {
		room := 0
		for i, cells := range s.m.cellsOfNode {
			if s.hinted[i] {
				room += s.room(cells)
			}
		}
		if room >= total {
			if !s.solve(s.hintedCells(true), 0) {
				most := s.most(s.m.cellsOfNode, len(s.hinted))
				s.never = fmt.Sprintf("NUMA nodes %s of the devices and memory can never have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
					s.request.Nodes, total, most, Restricted, most, BestEffort)
				return s.refuse(NotOnHintedNodes, most,
					"NUMA nodes %s of the devices and memory have too few left (topology-policy: %s); wait until others end, set topology-policy: %s, or see "+defragment,
					s.request.Nodes, Restricted, BestEffort)
			}
			return nil
		}
	}
	lists, groups := s.m.cellsOfNode, "NUMA nodes"
	if s.request.Options.AlignBySocket {
		lists, groups = s.m.cellsOfPackage, "packages"
	}
	limit := s.fewestWhenEmpty(lists, total)
	if !s.solve(nil, limit) {
		most := s.most(lists, limit)
		which := fmt.Sprintf("%d %s can never", limit, groups)
		if limit == 1 {
			which = "no " + strings.TrimSuffix(groups, "s") + " can ever"
		}
		s.never = fmt.Sprintf("%s have %d CPUs of the pool, at most %d (topology-policy: %s); request at most %d, set topology-policy: %s, or make the pool larger",
			which, total, most, Restricted, most, BestEffort)
		return s.refuse(NotOnFewestNodes, most,
			"%s that are enough on the empty machine: %d, and now they are not (topology-policy: %s); request fewer, set topology-policy: %s, or see "+defragment,
			groups, limit, Restricted, BestEffort)
	}
	return nil
}

// room is the number of CPUs of cells that the filter admits on an empty machine.
func (s *Supply) room(cells []int32) int {
	n := 0
	for core := range s.m.coresIn(cells) {
		for _, cpu := range s.m.cores[core].threads {
			n += int(toInt(s.filter.admits(int(cpu))))
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
func (s *Supply) fewestWhenEmpty(groups [][]int32, n int) int {
	rooms := make([]int, 0, len(groups))
	for _, cells := range groups {
		rooms = append(rooms, s.room(cells))
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
func (s *Supply) most(groups [][]int32, n int) int {
	var rooms []int
	for _, cells := range groups {
		room := 0
		for _, c := range cells {
			if s.hinted == nil || s.hinted[s.m.cells[c].node] {
				room += s.view.cells[c].cpus()
			}
		}
		rooms = append(rooms, room)
	}
	slices.Sort(rooms)
	most := len(s.view.picked)
	for _, room := range rooms[max(0, len(rooms)-n):] {
		most += room
	}
	return most
}
