package allocate

import "slices"

// portionCost orders what a portion adds: cores in part, its square, caches, the
// square of what stays free.
type portionCost [4]int64

// impossible is the cost of a share that no whole cores add up to, more than all cores in part
// of a machine. unplaced is the cost of units without a node, more than all impossible shares.
const (
	impossible = int64(1) << 32
	unplaced   = int64(1) << 60
)

func (d *distribution) portionCost(p portion) portionCost {
	s, units := d.shareCost(p), int64(p.units)
	free := int64(d.nodes[p.node].units) - units
	parts := int64(s.parts)
	if !s.ok {
		parts = impossible // no whole cores add up to it
	}
	return portionCost{parts, units * units, int64(s.l3s), free * free}
}

// remainder adds left units to the portions at the lowest total cost. It
// computes the costs of 0 to left units for the first portion, for the first two,
// and so on. If that takes too many steps, each portion gets one unit in turn.
func (d *distribution) remainder(all []portion, left int32) {
	if steps := len(all) * int(left) * int(left); d.q.steps+steps > maxSteps {
		d.inTurn(all, left)
		return
	}
	costs := make([]portionCost, left+1)
	for i := range costs {
		costs[i][0] = int64(min(i, 1)) * unplaced
	}
	next := make([]portionCost, left+1)
	more := make([]portionCost, 0, left+1) // the cost of a portion with 0, 1, … more
	stride := int(left) + 1
	given := make([]int32, len(all)*stride)
	for i, p := range all {
		room := min(left, int32(d.nodes[p.node].units)-p.units)
		more = more[:0]
		for n := range room + 1 {
			more = append(more, d.portionCost(portion{p.node, p.units + n}))
		}
		row := given[i*stride:]
		for sum := range left + 1 {
			d.q.steps += int(min(sum, room)) + 1
			for n := range min(sum, room) + 1 {
				c := more[n]
				for j := range c {
					c[j] += costs[sum-n][j]
				}
				if n == 0 || slices.Compare(c[:], next[sum][:]) < 0 {
					next[sum], row[sum] = c, n
				}
			}
		}
		costs, next = next, costs
	}
	for i := range slices.Backward(all) {
		n := given[i*stride+int(left)]
		all[i].units += n
		left -= n
	}
}

// inTurn adds left units to the portions, one after the other.
func (d *distribution) inTurn(all []portion, left int32) {
	for before := int32(0); left != before; {
		before = left
		for i := range all {
			if left > 0 && all[i].units < int32(d.nodes[all[i].node].units) {
				all[i].units++
				left--
			}
		}
	}
}
