package allocate

import "slices"

// room is how many CPUs of cells the filter would let count if nobody had any.
func (p *placing) room(cells []int32) int {
	n := 0
	for _, cell := range cells {
		for _, leaf := range p.v.m.cells[cell].leaves {
			for _, core := range p.v.m.leaves[leaf].cores {
				for _, cpu := range p.v.m.cores[core].threads {
					if p.f.admits(int(cpu)) {
						n++
					}
				}
			}
		}
	}
	return n
}

func (f *filter) admits(cpu int) bool {
	return (f.isolated == nil || hasBit(f.isolated, cpu)) &&
		(f.coreType == nil || hasBit(f.coreType, cpu)) &&
		(f.without == nil || !hasBit(f.without, cpu))
}

// fewestWhenEmpty is how many of the groups of cells n CPUs need if nobody else
// has any.
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

// mostOnOneNode is how many CPUs are usable on the emptiest of the nodes that
// count.
func (p *placing) mostOnOneNode() int {
	most := 0
	for i, cells := range p.v.m.cellsOfNode {
		if p.hinted != nil && !p.hinted[i] {
			continue
		}
		n := 0
		for _, c := range cells {
			n += p.v.cells[c].cpus()
		}
		most = max(most, n)
	}
	return most
}
