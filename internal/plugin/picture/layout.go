package picture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sizes in pixels at 96 dpi.
const (
	pageWidth = 1160 // of a picture, if Options has no other width
	leastWide = 320  // smallest width
	gap       = 6    // between boxes, and from a box to its content
	labelRoom = 17   // of a box, for its labels
)

type cell struct{ w, h int }

// cellFor is smaller the more CPUs there are, so that all fit on a page, and never too
// small for a number of as many digits.
func cellFor(cpus int) cell {
	switch {
	case cpus <= 16:
		return cell{60, 46}
	case cpus <= 64:
		return cell{44, 36}
	case cpus <= 128:
		return cell{34, 30}
	case cpus <= 999:
		return cell{29, 27}
	default:
		return cell{33, 27}
	}
}

type box struct {
	group      *Group
	x, y, w, h int
	parts      []*box
	cores      []core
}

// core is a box around the threads of a core, which are in one row.
type core struct {
	x, y, w, h int
	threads    []thread
}

type thread struct {
	x, y int
	cpu  inspect.CPU
}

// place lays out a group at 0,0 in a width that it exceeds only if a single core does.
func place(g *Group, width int, c cell) *box {
	b := &box{group: g}
	top := gap
	if len(g.Labels) > 0 {
		top += labelRoom
	}
	y := b.placeParts(g, top, width, c)
	y = b.placeCores(g, y, width, c)
	b.w, b.h = max(b.w+gap, labelWidth(g)), y
	return b
}

// placeParts puts boxes in rows of as many as are alike in width, and returns where the
// next row begins.
func (b *box) placeParts(g *Group, top, width int, c cell) int {
	inner := width - 2*gap
	columns := columnsFor(g, inner, c)
	x, y, rowHeight, inRow := gap, top, 0, 0
	for _, p := range g.Parts {
		sub := place(p, (inner-(columns-1)*gap)/columns, c)
		if inRow > 0 && (inRow == columns || x+sub.w > width-gap) {
			x, y, rowHeight, inRow = gap, y+rowHeight+gap, 0, 0
		}
		sub.move(x, y)
		x += sub.w + gap
		b.w, rowHeight = max(b.w, x-gap), max(rowHeight, sub.h)
		inRow++
		b.parts = append(b.parts, sub)
	}
	if inRow > 0 {
		y += rowHeight + gap
	}
	return y
}

// columnsFor is how many parts are beside each other: as many as have room for a square
// of cores each, and no more than there are.
func columnsFor(g *Group, width int, c cell) int {
	n := len(g.Parts)
	if n < 2 {
		return 1
	}
	for columns := n; columns > 1; columns-- {
		if (width-(columns-1)*gap)/columns >= square(g.Parts[0], c) {
			// Rows of the same length look better than a rest.
			for n%columns != 0 && n/columns < 4 && columns > 2 {
				columns--
			}
			return columns
		}
	}
	return 1
}

// square is the width of a box that is about as wide as high.
func square(g *Group, c cell) int {
	if len(g.Cores) == 0 {
		widest := 0
		for _, p := range g.Parts {
			widest = max(widest, square(p, c))
		}
		side := 1
		for side*side < len(g.Parts) {
			side++
		}
		return side*(widest+gap) + 2*gap
	}
	side, threads := 1, g.threads()
	for side*side*threads < len(g.Cores) {
		side++
	}
	return max(labelWidth(g), side*(coreWidth(threads, c)+gap)+2*gap)
}

// placeCores puts cores in rows of about the same length.
func (b *box) placeCores(g *Group, top, width int, c cell) int {
	x, y, inRow, row := gap, top, 0, g.rowOf(width, c)
	for _, threads := range g.Cores {
		k := core{w: coreWidth(len(threads), c), h: c.h + 4}
		if inRow > 0 && (inRow == row || x+k.w > width-gap) {
			x, y, inRow = gap, y+k.h+gap, 0
		}
		inRow++
		k.x, k.y = x, y
		for i, t := range threads {
			k.threads = append(k.threads, thread{x + 2 + i*(c.w+1), y + 2, t})
		}
		x += k.w + gap
		b.w = max(b.w, x-gap)
		b.cores = append(b.cores, k)
	}
	if len(g.Cores) > 0 {
		y += c.h + 4 + gap
	}
	return y
}

// rowOf is how many cores are in a row, so that the last one is no stump.
func (g *Group) rowOf(width int, c cell) int {
	fit := max(1, (width-gap)/(coreWidth(g.threads(), c)+gap))
	rows := (len(g.Cores) + fit - 1) / fit
	return max(1, (len(g.Cores)+max(rows, 1)-1)/max(rows, 1))
}

// threads returns the largest number of threads of a core.
func (g *Group) threads() int {
	threads := 1
	for _, core := range g.Cores {
		threads = max(threads, len(core))
	}
	return threads
}

func coreWidth(threads int, c cell) int { return threads*(c.w+1) + 3 }

// labelWidth is enough for the labels at 11 px.
func labelWidth(g *Group) int {
	n := 0
	for i, l := range g.Labels {
		if n += len(l); i > 0 {
			n += 3
		}
	}
	return n*6 + 2*gap
}

func (b *box) move(dx, dy int) {
	b.x, b.y = b.x+dx, b.y+dy
	for _, p := range b.parts {
		p.move(dx, dy)
	}
	for i := range b.cores {
		k := &b.cores[i]
		k.x, k.y = k.x+dx, k.y+dy
		for j := range k.threads {
			k.threads[j].x, k.threads[j].y = k.threads[j].x+dx, k.threads[j].y+dy
		}
	}
}

// Owner is a container, pod, unit or ResourceClaim with exclusive CPUs.
type Owner struct {
	// Number is shown on its CPUs and in the legend, from 1.
	Number int
	Name   string // namespace/pod/container, namespace/pod, a unit, or claim namespace/name
	CPUs   cpuset.Set
}

// Owners returns the owners of CPUs, ordered by their first CPU.
func Owners(cpus []inspect.CPU) []Owner {
	of := make(map[string]cpuset.Set)
	for _, c := range cpus {
		if c.Owner != "" {
			of[c.Owner] = of[c.Owner].Union(cpuset.Of(c.ID))
		}
	}
	all := make([]Owner, 0, len(of))
	for name, set := range of {
		all = append(all, Owner{Name: name, CPUs: set})
	}
	slices.SortFunc(all, func(a, b Owner) int {
		return cmp.Or(cmp.Compare(a.CPUs.First(), b.CPUs.First()), strings.Compare(a.Name, b.Name))
	})
	for i := range all {
		all[i].Number = i + 1
	}
	return all
}

// colours is the number of owner colours in style.css. They repeat from the thirteenth
// owner on, so that the number identifies the owner.
const colours = 12

func colourOf(number int) int { return (number-1)%colours + 1 }

// Words returns a description of a CPU: its use, owner and place.
func Words(c *inspect.CPU) string {
	if !c.Online {
		return fmt.Sprintf("CPU %d: offline", c.ID)
	}
	where := fmt.Sprintf("core %d, L3 %d, die %d, package %d, NUMA node %d", c.Core, c.L3, c.Die, c.Package, c.Node)
	return fmt.Sprintf("CPU %d: %s (%s)", c.ID, use(c), where)
}

func use(c *inspect.CPU) string {
	pool := c.Pool
	if pool == inspect.ClaimedPool {
		pool += " pool"
	}
	if c.Type != "" && c.Type != pool {
		pool = c.Pool + " " + c.Type
	}
	switch c.Use {
	case "pool":
		return pool + " pool"
	case "owned":
		return pool + ", owned by " + c.Owner
	case "reserved":
		return pool + ", reserved for " + c.Owner
	case "none":
		return "in no pool"
	case "":
		return "unknown"
	default:
		return pool + ", " + c.Use
	}
}
