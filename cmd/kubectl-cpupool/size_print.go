package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
)

// printSize prints the nodes that pods need for people.
func printSize(to io.Writer, d *size.Document) error {
	p := &page{Writer: layout.NewWriter(to, layout.Columns(to))}
	p.part()
	p.Table(machineTable(d))
	p.part()
	p.Table(sizePools(d))
	p.part()
	p.Paragraph(boundLine(d))
	if len(d.Nodes) > 0 {
		p.part()
		p.Table(openedTable(d))
	}
	p.part()
	for i := range d.Unplaced {
		u := &d.Unplaced[i]
		for _, r := range u.Reasons {
			p.Paragraph(fmt.Sprintf("no node: %s: on %s %s%s", u.Pod, r.Machine, r.Text, likes(u.Count)))
		}
	}
	for i := range d.Refused {
		r := &d.Refused[i]
		p.Paragraph("refused: " + r.String() + likes(r.Count))
	}
	for i := range d.Savings {
		p.Paragraph(savingLine(&d.Savings[i]))
	}
	if len(d.Savings) == 0 && len(d.Tried) > 0 {
		p.Paragraph("no other size of one pool needs fewer nodes")
	}
	for _, note := range d.Notes {
		p.Paragraph("note: " + note)
	}
	return p.Flush()
}

// likes returns the end of a line about the first of count pods.
func likes(count int) string {
	if count == 1 {
		return ""
	}
	return fmt.Sprintf("; more pods like it: %d", count-1)
}

func machineTable(d *size.Document) *layout.Table {
	t := &layout.Table{}
	t.Row("MACHINE", "CPUS", "NODES", "DAEMON PODS", "CONFIG")
	for i := range d.Machines {
		m := &d.Machines[i]
		t.Row(m.Name, strconv.Itoa(m.CPUs), strconv.Itoa(m.Nodes), strconv.Itoa(m.Daemons), cmp.Or(m.File, "no file"))
	}
	return t
}

func sizePools(d *size.Document) *layout.Table {
	t := &layout.Table{}
	t.Row("MACHINE", "POOL", "CPUS OF A NODE", "ALL CPUS", "REQUESTED", "UNUSED")
	for i := range d.Machines {
		for _, p := range d.Machines[i].Pools {
			t.Row(d.Machines[i].Name, inspect.FullPool(p.Name, p.Type), inspect.Sized(p.CPUs), milliCPUs(p.Milli), milliCPUs(p.RequestedMilli), milliCPUs(p.UnusedMilli))
		}
	}
	return t
}

// milliCPUs returns thousandths of a CPU as a number of CPUs.
func milliCPUs(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }

func boundLine(d *size.Document) string {
	text := fmt.Sprintf("%s for %s", layout.Count(len(d.Nodes), "node"), layout.Count(d.Pods, "pod"))
	switch {
	case d.Bound.Resource == "":
	case d.Bound.Nodes == len(d.Nodes):
		text += fmt.Sprintf("; no packing has fewer, because of %s", d.Bound.Resource)
	default:
		text += fmt.Sprintf("; a packing has at least %d, because of %s", d.Bound.Nodes, d.Bound.Resource)
	}
	return text
}

// openedTable has a row for consecutive nodes that lack the same amount.
func openedTable(d *size.Document) *layout.Table {
	t := &layout.Table{}
	t.Row("NODES", "PODS", "FREE EXCLUSIVE CPUS", "OPENED BY", "REASON")
	for i := 0; i < len(d.Nodes); {
		first, pods, free := &d.Nodes[i], 0, 0
		j := i
		for ; j < len(d.Nodes) && d.Nodes[j].Machine == first.Machine && d.Nodes[j].Opened.Text == first.Opened.Text; j++ {
			pods, free = pods+len(d.Nodes[j].Pods), free+d.Nodes[j].Allocatable
		}
		name := first.Name
		if j > i+1 {
			name += " to " + d.Nodes[j-1].Name
		}
		t.Row(name, strconv.Itoa(pods), strconv.Itoa(free), first.Opened.Pod, first.Opened.Text)
		i = j
	}
	return t
}

func savingLine(s *size.Saving) string {
	text := fmt.Sprintf("saving: with %s: %s on %s (now %s), the pods need %s: %d fewer", s.Key, s.Value, s.Machine, s.Was, layout.Count(s.Nodes, "node"), s.Saved)
	if s.Saved <= 0 {
		text = fmt.Sprintf("saving: with %s: %s on %s (now %s), more pods fit, on %s", s.Key, s.Value, s.Machine, s.Was, layout.Count(s.Nodes, "node"))
	}
	if s.Unplaced > 0 {
		text += fmt.Sprintf("; without a node: %s", layout.Count(s.Unplaced, "pod"))
	}
	return text
}
