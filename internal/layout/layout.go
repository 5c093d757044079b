// Package layout lays out text for people: tables and paragraphs. On a terminal they are as
// wide as the terminal at most, and long cells are shortened with an ellipsis. In a pipe or a
// file nothing is shortened, and a paragraph is one line.
package layout

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Table is a table of columns.
type Table struct {
	rows [][]string
}

// NewTable returns a table below a head.
func NewTable(head ...string) *Table {
	t := &Table{}
	t.Row(head...)
	return t
}

// Row adds a row. An empty cell is shown as a dash.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		if cells[i] = Printable(c); c == "" {
			cells[i] = "-"
		}
	}
	t.rows = append(t.rows, cells)
}

// least is how narrow a column may become.
const least = 8

// Table writes the rows of a table, with two spaces between columns. On a terminal it cuts the
// widest column first until the rows fit.
func (w *Writer) Table(t *Table) {
	var widths []int
	for _, row := range t.rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	sum := 2 * max(len(widths)-1, 0)
	for _, n := range widths {
		sum += n
	}
	for ; w.columns > 0 && sum > w.columns; sum-- {
		widest := slices.Index(widths, slices.Max(widths))
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	for _, row := range t.rows {
		var line strings.Builder
		for i, c := range row {
			c = shorten(c, widths[i])
			line.WriteString(c)
			if i+1 < len(row) {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c)+2))
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// Section writes an empty line and a table. It writes nothing for a table without rows below its head.
func (w *Writer) Section(t *Table) {
	if len(t.rows) > 1 {
		fmt.Fprintln(w)
		w.Table(t)
	}
}

// shorten cuts a text to n characters, in the middle of a name and at the end of a
// sentence.
func shorten(s string, n int) string {
	letters := []rune(s)
	switch {
	case len(letters) <= n:
		return s
	case n < 2:
		return "…"
	case strings.Contains(s, " "):
		return string(letters[:n-1]) + "…"
	}
	return Middle(s, n)
}

// Middle cuts a text to n characters, in its middle.
func Middle(s string, n int) string {
	letters := []rune(s)
	if len(letters) <= n {
		return s
	}
	head := (n - 1) / 2
	return string(letters[:head]) + "…" + string(letters[len(letters)-(n-1-head):])
}

// wrap breaks a text into lines of at most width characters. Lines after the first are
// indented. With width 0 the text is one line.
func wrap(s, indent string, width int) []string {
	words := strings.Fields(Printable(s))
	if width == 0 {
		return []string{strings.Join(words, " ")}
	}
	var lines []string
	line := ""
	for _, word := range words {
		for {
			switch room := width - utf8.RuneCountInString(line); {
			case line == "" || line == indent:
				if letters := []rune(word); len(letters) > room {
					lines, word, line = append(lines, line+string(letters[:room])), string(letters[room:]), indent
					continue
				}
				line += word
			case utf8.RuneCountInString(word)+1 <= room:
				line += " " + word
			default:
				lines, line = append(lines, line), indent
				continue
			}
			break
		}
	}
	return append(lines, line)
}

// Lines returns a writer that shows text from outside as [Printable] does, and keeps its
// line breaks.
func Lines(w io.Writer) io.Writer { return lines{w} }

type lines struct{ to io.Writer }

func (l lines) Write(text []byte) (int, error) {
	shown := strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, string(text))
	if _, err := io.WriteString(l.to, shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Printable replaces characters that would control a terminal or break a table by ?. Users
// choose many of the names.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// Clip returns at most the first bytes of a text, up to the last whole character of these. An ellipsis
// follows a text that is cut.
func Clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Few joins the first names, and states the number of the others.
func Few(names []string, most int) string {
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Count returns a number of things, such as 1 CPU or 2 CPUs.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}
