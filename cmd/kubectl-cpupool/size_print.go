package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/size"
)

func printSize(w *layout.Writer, d *size.Document) {
	w.Table(machineTable(d))
	fmt.Fprintln(w)
	w.Table(sizePools(d))
	fmt.Fprintln(w)
	w.Paragraph(boundLine(d))
	w.Section(openedTable(d))
	fmt.Fprintln(w)
	for _, u := range d.Unplaced {
		for _, r := range u.Reasons {
			w.Paragraph(fmt.Sprintf("no node: %s: on %s %s%s", u.Pod, r.Machine, r.Text, likes(u.Count)))
		}
	}
	for _, r := range d.Refused {
		w.Paragraph("refused: " + r.String() + likes(r.Count))
	}
	for i := range d.Savings {
		w.Paragraph(savingLine(&d.Savings[i]))
	}
	if len(d.Savings) == 0 && len(d.Tried) > 0 {
		w.Paragraph("no other size of one pool needs fewer nodes")
	}
	for _, note := range d.Notes {
		w.Paragraph("note: " + note)
	}
}

// likes returns the end of a line about the first of count pods.
func likes(count int) string {
	if count == 1 {
		return ""
	}
	return fmt.Sprintf("; more pods like it: %d", count-1)
}

func machineTable(d *size.Document) *layout.Table {
	t := layout.NewTable("MACHINE", "CPUS", "NODES", "DAEMON PODS", "CONFIG")
	for _, m := range d.Machines {
		t.Row(m.Name, strconv.Itoa(m.CPUs), strconv.Itoa(m.Nodes), strconv.Itoa(m.Daemons), cmp.Or(m.File, "no file"))
	}
	return t
}

func sizePools(d *size.Document) *layout.Table {
	t := layout.NewTable("MACHINE", "POOL", "CPUS OF A NODE", "ALL CPUS", "REQUESTED", "UNUSED")
	for _, m := range d.Machines {
		for _, p := range m.Pools {
			t.Row(m.Name, inspect.FullPool(p.Name, p.Type), inspect.Sized(p.CPUs), cpus(p.Milli), cpus(p.RequestedMilli), cpus(p.UnusedMilli))
		}
	}
	return t
}

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
	t := layout.NewTable("NODES", "PODS", "FREE EXCLUSIVE CPUS", "OPENED BY", "REASON")
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
