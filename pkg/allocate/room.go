package allocate

import "slices"

// room is the number of CPUs of cells that the filter admits on an empty machine.
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
