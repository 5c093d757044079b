package picture

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

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
		if n > 0 && look.class != "owned" && look.class != "reserved" {
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
		{"none", "–", "in no pool"}, {"offline", "off", "offline"},
	}
}

func (d *drawing) legend(l legend, x, y int) {
	d.WriteString(`<g role="group" aria-label="legend">` + "\n")
	for _, e := range l.entries {
		ex, ey := x+e.x, y+e.y
		d.swatch(e.class, e.owner, ex, ey+2, 28, legendLine-5)
		ink := ""
		if e.owner > 0 {
			ink = fmt.Sprintf(" i%d", colourOf(e.owner))
		}
		if e.faulty {
			d.printf(`<rect class="fault" x="%d" y="%d" width="26" height="%d" rx="2"/>`, ex+1, ey+3, legendLine-7)
		}
		if e.mark != "" {
			d.printf(`<text class="mark%s" x="%d" y="%d">%s</text>`, ink, ex+14, ey+14, e.mark)
		}
		for i, line := range e.lines {
			d.printf(`<text class="entry" x="%d" y="%d">%s</text>`+"\n", ex+legendText, ey+15+i*legendMore, escaped(line))
		}
	}
	d.WriteString("</g>\n")
}
