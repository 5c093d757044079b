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

// most is how many CPUs can be had from n of the groups of cells, hinted nodes only
// if there are any; what has been picked already is among them.
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
