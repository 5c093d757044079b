package picture

import (
	"fmt"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// entry is a line of the legend.
type entry struct {
	class  string
	mark   string
	owner  int
	text   string
	x, y   int
	faulty bool
}

// legend says what looks and numbers mean, in columns.
type legend struct {
	entries []entry
	height  int
}

const (
	legendLine = 22
	legendWide = 420 // a column
	legendRoom = 54  // characters of a column
)

// legendOf has what is there, and nothing else: pools first, then owners.
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
			l.entries = append(l.entries, entry{class: look.class, mark: look.mark, text: fmt.Sprintf("%s, %s", look.text, count(n))})
		}
	}
	for _, o := range owners {
		l.entries = append(l.entries, entry{class: "owned", owner: o.Number, mark: fmt.Sprintf("#%d", o.Number), text: shortened(o)})
	}
	if f := Faulty(s); !f.IsEmpty() {
		l.entries = append(l.entries, entry{class: "none", faulty: true, text: "not as planned: " + f.String()})
	}
	if n := strayed(s); n > 0 {
		l.entries = append(l.entries, entry{class: "none", faulty: true, text: fmt.Sprintf("not as planned, without CPUs of their own: %d", n)})
	}
	columns := max(1, width/legendWide)
	rows := (len(l.entries) + columns - 1) / columns
	for i := range l.entries {
		l.entries[i].x, l.entries[i].y = i/rows*legendWide, i%rows*legendLine
	}
	l.height = rows * legendLine
	return l
}

func count(n int) string {
	if n == 1 {
		return "1 CPU"
	}
	return fmt.Sprintf("%d CPUs", n)
}

// look is how CPUs of a use are drawn, and what it is called.
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
		d.printf(`<text class="entry" x="%d" y="%d">%s</text>`+"\n", ex+34, ey+15, escaped(shorten(e.text, legendRoom)))
	}
	d.WriteString("</g>\n")
}

// shortened is an owner with its CPUs, which the name makes room for.
func shortened(o Owner) string {
	cpus := shorten(o.CPUs.String(), legendRoom/2)
	return shorten(o.Name, legendRoom-2-len([]rune(cpus))) + ": " + cpus
}

// shorten cuts the middle out of a text that has no room: names begin and end with what
// tells them apart.
func shorten(s string, room int) string {
	r := []rune(s)
	if len(r) <= room {
		return s
	}
	return string(r[:room/2]) + "…" + string(r[len(r)-(room-room/2-1):])
}
