package picture

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Options configures [SVG].
type Options struct {
	// Load is the part of its time for which each CPU is busy, from 0 to 1. A bar shows it.
	// CPUs with unknown load are missing.
	Load map[int]float64
	// Width is the width in pixels that the picture fills if the machine is large enough. It
	// is wider only if a core does not fit. 0 is 1160.
	Width int
	// Bare leaves out style sheet and title: the page has them.
	Bare bool
}

type drawing struct {
	bytes.Buffer
	cell   cell
	owners map[string]int // numbers by name
	faulty cpuset.Set     // result of Faulty
	load   map[int]float64
}

// SVG draws a node. The picture follows the viewer's light or dark mode, is readable without
// colours, and describes each CPU in words. A status without CPUs is an error.
func SVG(s *inspect.Status, o Options) ([]byte, error) {
	if len(s.CPUs) == 0 {
		return nil, fmt.Errorf("the status of node %q contains no CPUs; use output of cpupoold status -o json", s.Node)
	}
	cpus := slices.Clone(s.CPUs)
	slices.SortFunc(cpus, func(a, b inspect.CPU) int { return a.ID - b.ID })
	owners := Owners(cpus)
	d := &drawing{cell: cellFor(len(cpus)), owners: make(map[string]int, len(owners)), faulty: Faulty(s), load: o.Load}
	for _, o := range owners {
		d.owners[o.Name] = o.Number
	}
	wide := pageWidth
	if o.Width > 0 {
		wide = max(o.Width-2*gap, leastWide)
	}
	machine := place(Tree(cpus), wide, d.cell)
	top := 40
	if o.Bare {
		top = gap
	}
	across := max(machine.w, min(wide, 640))
	legend := legendOf(s, owners, across)
	width, height := across+2*gap, top+machine.h+gap+legend.height+gap
	d.open(s, width, height, o.Bare)
	machine.move(gap, top)
	d.box(machine, 0)
	d.legend(legend, gap, top+machine.h+gap)
	d.WriteString("</svg>\n")
	return d.Bytes(), nil
}

// Faulty returns the CPUs of owners whose cgroup is not in the desired state.
func Faulty(s *inspect.Status) (all cpuset.Set) {
	for _, f := range s.Faults {
		for i := range s.Containers {
			if c := &s.Containers[i]; c.Cgroup == f.Cgroup && hasOwnCPUs(c) {
				all = all.Union(c.CPUs)
			}
		}
	}
	return all
}

// hasOwnCPUs reports whether a container has exclusive CPUs, which containers of its pod can share.
func hasOwnCPUs(c *inspect.Container) bool { return c.Exclusive || c.Pool == inspect.Guaranteed }

// strayed returns the number of other cgroups that are not in the desired state.
func strayed(s *inspect.Status) (n int) {
	for _, f := range s.Faults {
		if !slices.ContainsFunc(s.Containers, func(c inspect.Container) bool { return c.Cgroup == f.Cgroup && hasOwnCPUs(&c) }) {
			n++
		}
	}
	return n
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(d, format, args...) }

func (d *drawing) open(s *inspect.Status, width, height int, bare bool) {
	title := "CPUs of " + cmp.Or(s.Node, "this machine")
	d.printf(`<svg xmlns="http://www.w3.org/2000/svg" class="cpus" width="%d" height="%d" viewBox="0 0 %d %d" role="group" aria-label="%s" font-family="system-ui, sans-serif">`+"\n",
		width, height, width, height, escaped(title))
	if !bare {
		d.printf("<style>\n%s</style>\n", style)
	}
	d.WriteString(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><line class="hatch" x1="0" y1="0" x2="0" y2="6"/></pattern></defs>` + "\n")
	d.printf(`<rect class="page" width="%d" height="%d"/>`+"\n", width, height)
	if !bare {
		d.printf(`<text class="title" x="%d" y="25">%s</text>`+"\n", gap+4, escaped(title))
	}
}

// box draws a box with its content and its description. A screen reader reads it as a group.
func (d *drawing) box(b *box, depth int) {
	if label := strings.Join(b.group.Labels, " · "); label != "" {
		d.printf(`<g role="group" aria-label="%s"><rect class="box d%d" x="%d" y="%d" width="%d" height="%d" rx="4"/>`, escaped(label), min(depth, 3), b.x, b.y, b.w, b.h)
		d.printf(`<text class="label" x="%d" y="%d">%s</text>`+"\n", b.x+gap, b.y+gap+9, escaped(label))
		depth++
	} else {
		d.WriteString("<g>\n")
	}
	for _, p := range b.parts {
		d.box(p, depth)
	}
	for _, k := range b.cores {
		d.printf(`<rect class="core" x="%d" y="%d" width="%d" height="%d" rx="3"/>`, k.x, k.y, k.w, k.h)
		for i := range k.threads {
			d.thread(&k.threads[i])
		}
		d.WriteString("\n")
	}
	d.WriteString("</g>\n")
}

func (d *drawing) thread(t *thread) {
	c := &t.cpu
	number := d.owners[c.Owner]
	words := escaped(Words(c))
	if d.faulty.Contains(c.ID) {
		words += ", not in the desired state"
	}
	load, known := d.load[c.ID]
	if known {
		words += fmt.Sprintf(", %.0f %% busy", 100*load)
	}
	d.printf(`<g class="cpu" id="cpu%d" role="img" aria-label="%s" data-cpu="%d"><title>%s</title>`, c.ID, words, c.ID, words)
	d.swatch(classOf(c), number, t.x, t.y, d.cell.w, d.cell.h)
	ink, middle := inkOf(number), t.x+d.cell.w/2
	if mark := markOf(c, number); mark == "" {
		d.printf(`<text class="id%s" x="%d" y="%d">%d</text>`, ink, middle, t.y+d.cell.h/2+4, c.ID)
	} else {
		d.printf(`<text class="id%s" x="%d" y="%d">%d</text>`, ink, middle, t.y+d.cell.h/2-1, c.ID)
		d.printf(`<text class="mark%s" x="%d" y="%d">%s</text>`, ink, middle, t.y+d.cell.h-4, mark)
	}
	if known {
		d.printf(`<rect class="load" x="%d" y="%d" width="%d" height="3"/>`, t.x, t.y+d.cell.h-3, int(float64(d.cell.w)*min(max(load, 0), 1)))
	}
	if d.faulty.Contains(c.ID) {
		d.printf(`<rect class="fault" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, t.x+1, t.y+1, d.cell.w-2, d.cell.h-2)
	}
	d.WriteString("</g>")
}

// inkOf returns the style class of a text on the colour of an owner, after a space.
func inkOf(owner int) string {
	if owner == 0 {
		return ""
	}
	return fmt.Sprintf(" i%d", colourOf(owner))
}

// swatch is a field in the colour of a use, or of an owner.
func (d *drawing) swatch(class string, owner, x, y, w, h int) {
	look := class
	if owner > 0 {
		look = fmt.Sprintf("%s o%d", class, colourOf(owner))
	}
	d.printf(`<rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, look, x, y, w, h)
	switch class {
	case "idle", "resting", "parked", "reserved", "unused", "lent":
		d.printf(`<rect class="over" x="%d" y="%d" width="%d" height="%d" rx="2"/>`, x, y, w, h)
	}
}

// markOf returns the mark below a CPU's number: the owner's number, or a letter for the use.
func markOf(c *inspect.CPU, owner int) string {
	if owner > 0 {
		return "#" + strconv.Itoa(owner)
	}
	class := classOf(c)
	for _, l := range looks() {
		if l.class == class {
			return l.mark
		}
	}
	return ""
}

// classOf returns the style class of a CPU; "none" if the style sheet does not know its use.
func classOf(c *inspect.CPU) string {
	class := c.Use
	switch {
	case !c.Online:
		return "offline"
	case c.Use == "pool":
		class = c.Pool
	case c.Use == "owned" || c.Use == "reserved":
		return c.Use
	}
	if slices.ContainsFunc(looks(), func(l look) bool { return l.class == class }) {
		return class
	}
	return "none"
}

// escaped returns text for SVG content and attributes. Characters that XML forbids become U+FFFD.
func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder takes all
	return b.String()
}

type entry struct {
	class  string
	mark   string
	owner  int
	text   string
	lines  []string // of text
	x, y   int
	faulty bool
}

// legend explains colours, marks and numbers, in columns.
type legend struct {
	entries []entry
	height  int
}

const (
	legendLine = 22
	legendMore = 15  // of a further line of an entry
	legendWide = 420 // a column
	legendText = 34  // from the left of a column to its text
	character  = 8   // width of one; few fonts have wider letters on average
)

// legendOf returns an entry for each kind of CPU and for each owner of the status. Names are
// never cut: long ones have fewer and wider columns, and more than one line.
func legendOf(s *inspect.Status, owners []Owner, width int) legend {
	var l legend
	for _, look := range looks() {
		n := 0
		for i := range s.CPUs {
			if classOf(&s.CPUs[i]) == look.class {
				n++
			}
		}
		if n > 0 {
			l.entries = append(l.entries, entry{class: look.class, mark: look.mark, text: fmt.Sprintf("%s, %s", look.text, layout.Count(n, "CPU"))})
		}
	}
	for _, o := range owners {
		l.entries = append(l.entries, entry{class: "owned", owner: o.Number, mark: fmt.Sprintf("#%d", o.Number), text: o.Name + ": " + o.CPUs.String()})
	}
	if f := Faulty(s); !f.IsEmpty() {
		l.entries = append(l.entries, entry{class: "none", faulty: true, text: "not in the desired state: " + f.String()})
	}
	if n := strayed(s); n > 0 {
		l.entries = append(l.entries, entry{class: "none", faulty: true, text: fmt.Sprintf("not in the desired state, without exclusive CPUs: %d", n)})
	}
	l.arrange(width)
	return l
}

func (l *legend) arrange(width int) {
	longest := 0
	for _, e := range l.entries {
		longest = max(longest, len([]rune(e.text)))
	}
	columns, wide := max(1, width/legendWide), legendWide
	for legendText+longest*character > wide && columns > 1 {
		columns--
		wide = width / columns
	}
	if columns == 1 {
		wide = max(width, legendText+20*character)
	}
	rows := (len(l.entries) + columns - 1) / columns
	y := 0
	for i := range l.entries {
		e := &l.entries[i]
		if i%rows == 0 {
			y = 0
		}
		e.lines = chunks(e.text, (wide-legendText)/character)
		e.x, e.y = i/rows*wide, y
		y += legendLine + (len(e.lines)-1)*legendMore
		l.height = max(l.height, y)
	}
}

// chunks splits a text into lines of at most room characters. Names have no blanks at which
// a line could end.
func chunks(text string, room int) (lines []string) {
	rest := []rune(text)
	for len(rest) > room {
		lines = append(lines, string(rest[:room]))
		rest = rest[room:]
	}
	return append(lines, string(rest))
}

// look holds the style class, mark and legend text for CPUs with one use.
type look struct{ class, mark, text string }

func looks() []look {
	return []look{
		{inspect.Management, "M", "management pool"}, {inspect.Shared, "S", "shared pool"},
		{"free", "", "guaranteed pool, free"}, {"idle", "I", "guaranteed pool, the rest of an owner's core"},
		{"resting", "R", "guaranteed pool, resting"}, {"parked", "P", "guaranteed pool, parked"},
		{"unused", "U", "claims pool, unused"}, {"lent", "L", "claims pool, lent to the shared pool"},
		{"none", "–", "in no pool"}, {"offline", "off", "offline"},
	}
}

func (d *drawing) legend(l legend, x, y int) {
	d.WriteString(`<g role="group" aria-label="legend">` + "\n")
	for _, e := range l.entries {
		ex, ey := x+e.x, y+e.y
		d.swatch(e.class, e.owner, ex, ey+2, 28, legendLine-5)
		if e.faulty {
			d.printf(`<rect class="fault" x="%d" y="%d" width="26" height="%d" rx="2"/>`, ex+1, ey+3, legendLine-7)
		}
		if e.mark != "" {
			d.printf(`<text class="mark%s" x="%d" y="%d">%s</text>`, inkOf(e.owner), ex+14, ey+14, e.mark)
		}
		for i, line := range e.lines {
			d.printf(`<text class="entry" x="%d" y="%d">%s</text>`+"\n", ex+legendText, ey+15+i*legendMore, escaped(line))
		}
	}
	d.WriteString("</g>\n")
}
