package demo

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cpupoold/cpupoold/pkg/pools"
)

// width is the longest line, in characters.
const width = 140

// gap is between columns.
const gap = "  "

// table renders rows; of pause containers only those with which something is wrong.
func table(rows []row) string {
	cells := [][]string{{
		"\n\npod", "\n\ncontainer", "cpupoold:\n\npool", "\n\nCPUs",
		"kernel:\ncpuset.cpus\n.effective", "\nCpus_\nallowed_list", "\nwhole\ncores", "\nNUMA\nnodes", "\ncpu.\nweight", "\n\nreason",
	}}
	for _, r := range rows {
		name, reason := r.Name, r.Reason.Text
		if d := r.differs(); len(d) > 0 {
			reason = "DIFFERS: " + strings.Join(d, ", ") + "; " + reason
		} else if r.Kind == pools.Infra {
			continue
		}
		if r.Kind == pools.Infra {
			name = "(pause)"
		}
		cells = append(cells, []string{
			r.pod, name, string(r.Pool), r.CPUs.String(), r.kernel.Effective.String(), r.allowed(), fmt.Sprint(r.kernel.cores),
			r.kernel.nodes.String(), fmt.Sprint(r.kernel.Weight), reason,
		})
	}
	return render(cells)
}

// refusals renders the rejected requests.
func refusals(problems []pools.Problem) string {
	var cells [][]string
	for _, p := range problems {
		cells = append(cells, []string{"problem:", strings.TrimSuffix(cmp.Or(p.Pod, p.Unit)+"/"+p.Container, "/") + ": " + p.Text})
	}
	return render(cells)
}

// render puts cells in columns, the last of which is wrapped to fill the width. Cells may have several lines.
func render(cells [][]string) string {
	if len(cells) == 0 {
		return ""
	}
	var widths []int
	used := 0
	for column := range len(cells[0]) - 1 {
		widest := 0
		for _, row := range cells {
			for line := range strings.SplitSeq(row[column], "\n") {
				widest = max(widest, len(line))
			}
		}
		widths = append(widths, widest)
		used += widest + len(gap)
	}
	var b strings.Builder
	for _, row := range cells {
		last := len(row) - 1
		lines := append(splitAll(row[:last]), strings.Split(wrap(row[last], max(width-used, 1)), "\n"))
		for i := range tallest(lines) {
			var text strings.Builder
			for column, l := range lines {
				cell := ""
				if i < len(l) {
					cell = l[i]
				}
				if column < last {
					fmt.Fprintf(&text, "%-*s%s", widths[column], cell, gap)
				} else {
					text.WriteString(cell)
				}
			}
			b.WriteString(strings.TrimRight(text.String(), " ") + "\n")
		}
	}
	return b.String()
}

func splitAll(cells []string) [][]string {
	var lines [][]string
	for _, c := range cells {
		lines = append(lines, strings.Split(c, "\n"))
	}
	return lines
}

func tallest(cells [][]string) int {
	n := 0
	for _, lines := range cells {
		n = max(n, len(lines))
	}
	return n
}

// wrap breaks lines between words so that none is longer than limit, as long as no word is.
func wrap(text string, limit int) string {
	var b strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			b.WriteByte('\n')
		}
		length := 0
		for j, word := range strings.Fields(line) {
			switch {
			case j == 0:
			case length+1+len(word) > limit:
				b.WriteByte('\n')
				length = 0
			default:
				b.WriteByte(' ')
				length++
			}
			b.WriteString(word)
			length += len(word)
		}
	}
	return b.String()
}
