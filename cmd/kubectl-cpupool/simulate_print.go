package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/simulate"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func printSimulations(w *layout.Writer, all []*simulate.Document) {
	if len(all) > 1 {
		w.Table(nodeTable(all))
	}
	for _, d := range all {
		if len(all) > 1 {
			fmt.Fprintln(w)
		}
		printSimulation(w, d)
	}
}

func nodeTable(all []*simulate.Document) *layout.Table {
	t := layout.NewTable("NODE", "CPUS", "PODS", "OWNED", "FREE", "REFUSED")
	for _, d := range all {
		owned, free := 0, 0
		for _, p := range d.Pools {
			if p.Name == inspect.Guaranteed {
				owned, free = p.Owned.Len(), p.Free.Len()
			}
		}
		t.Row(d.Node, strconv.Itoa(d.Topology.Online.Len()), strconv.Itoa(d.Pods), strconv.Itoa(owned), strconv.Itoa(free), strconv.Itoa(len(d.Refused)))
	}
	return t
}

func printSimulation(w *layout.Writer, d *simulate.Document) {
	printMachine(w, d)
	w.Paragraph(configLine(d))
	fmt.Fprintln(w)
	w.Table(poolTable(d))
	w.Section(containerTable(d))
	w.Section(allocationTable(d))
	w.Section(stepTable(d))
	fmt.Fprintln(w)
	printRefusals(w, "refused", d.Refused)
	if len(d.Refused) == 0 {
		w.Paragraph("no requests refused")
	}
	printProblems(w, d)
	for _, note := range d.Notes {
		w.Paragraph("note: " + note)
	}
}

func printMachine(w *layout.Writer, d *simulate.Document) {
	if d.Node != "" {
		w.Paragraph("node: " + d.Node)
	}
	w.Paragraph(machineLine(d.Topology))
}

func machineLine(t *topology.Topology) string {
	parts := []string{layout.Count(t.Online.Len(), "CPU"), layout.Count(len(t.Packages), "package"), layout.Count(len(t.Nodes), "NUMA node"),
		layout.Count(len(t.L3s), "last-level cache"), layout.Count(len(t.Cores), "core")}
	if offline := t.Present.Difference(t.Online); !offline.IsEmpty() {
		parts = append(parts, "offline "+offline.String())
	}
	return "machine: " + strings.Join(parts, ", ")
}

func configLine(d *simulate.Document) string {
	name := cmp.Or(d.Config.File, "defaults, no file")
	if d.Config.Fresh {
		name = "pools of a fresh installation"
	}
	parts := []string{"config: " + name, layout.Count(d.Pods, "pod")}
	if !d.Config.Offline.IsEmpty() {
		parts = append(parts, "offline CPUs of pools "+d.Config.Offline.String())
	}
	for _, a := range d.Config.Adapted {
		parts = append(parts, "adapted: "+a)
	}
	return strings.Join(parts, "; ")
}

func poolTable(d *simulate.Document) *layout.Table {
	t := layout.NewTable("POOL", "CPUS", "COUNT", "CONTAINERS", "OWNED", "FREE", "IDLE")
	for _, p := range d.Pools {
		owned, free := p.Sizes()
		t.Row(inspect.FullPool(p.Name, p.Type), p.CPUs.String(), strconv.Itoa(p.CPUs.Len()), strconv.Itoa(p.Containers), owned, free, p.Idle.String())
	}
	return t
}

func containerTable(d *simulate.Document) *layout.Table {
	t := layout.NewTable("CONTAINER OR UNIT", "POOL", "CPUS", "NODE", "REASON")
	for _, c := range inspect.ByPool(d.Containers) {
		t.Row(c.Full(), inspect.FullPool(c.Pool, c.Type), c.CPUText(), nodesOf(d.Topology, c.CPUs), c.Code)
	}
	return t
}

func allocationTable(d *simulate.Document) *layout.Table {
	t := layout.NewTable("CLAIM", "REQUEST", "DEVICE", "COUNT", "CPUS", "POD", "CONTAINERS")
	for _, c := range d.Allocations {
		count, device := "", c.Driver+"/"+c.Device
		if c.Count > 0 {
			count = strconv.Itoa(c.Count)
		}
		if c.AdminAccess {
			device += " (admin access)"
		}
		t.Row(c.Claim, c.Request, device, count, c.CPUs.String(), c.Pod, strings.Join(c.Containers, ","))
	}
	return t
}

// nodesOf are the NUMA nodes that CPUs are in.
func nodesOf(t *topology.Topology, cpus cpuset.Set) string {
	var ids []int
	for _, n := range t.Nodes {
		if n.CPUs.Overlaps(cpus) {
			ids = append(ids, n.ID)
		}
	}
	return cpuset.Of(ids...).String()
}

func stepTable(d *simulate.Document) *layout.Table {
	t := layout.NewTable("AT", "EVENT", "PODS", "SHARED", "OWNED", "FREE", "REFUSED")
	for _, s := range d.Steps {
		cells := []string{s.At, s.Event, strconv.Itoa(s.Pods), "", "", "", strconv.Itoa(len(s.Refused))}
		for _, p := range s.Pools {
			switch p.Name {
			case inspect.Shared:
				cells[3] = strconv.Itoa(p.CPUs.Len())
			case inspect.Guaranteed:
				cells[4], cells[5] = strconv.Itoa(p.Owned.Len()), strconv.Itoa(p.Free.Len())
			}
		}
		t.Row(cells...)
	}
	return t
}

func printRefusals(w *layout.Writer, how string, all []simulate.Refusal) {
	for _, r := range all {
		text := how + ": " + r.String()
		if r.Then != "" {
			text += "; " + r.Then
		}
		switch {
		case r.Since != "" && r.Until != "":
			text += "; from " + r.Since + " to " + r.Until
		case r.Since != "":
			text += "; from " + r.Since + " on"
		case r.Until != "":
			text += "; until " + r.Until
		}
		w.Paragraph(text)
	}
}

// printProblems prints the problems that are no refusals.
func printProblems(w *layout.Writer, d *simulate.Document) {
	shown := make(map[string]bool)
	for i := range d.Refused {
		shown[d.Refused[i].Name()+" "+d.Refused[i].Code] = true
	}
	for _, x := range d.Problems {
		if !shown[x.Name()+" "+x.Code] {
			w.Paragraph("problem: " + x.String())
		}
	}
}

// printComparisons prints, for each node, what differs between two configurations.
func printComparisons(w *layout.Writer, all []*simulate.Comparison) {
	for i, c := range all {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printComparison(w, c)
	}
}

func printComparison(w *layout.Writer, c *simulate.Comparison) {
	printMachine(w, c.Before)
	w.Paragraph("before: " + configLine(c.Before))
	w.Paragraph("after: " + configLine(c.After))
	fmt.Fprintln(w)
	pools := layout.NewTable("POOL", "CPUS BEFORE", "CPUS AFTER", "OWNED", "FREE")
	for _, x := range c.Pools {
		b, a := cmp.Or(x.Before, &inspect.Pool{}), cmp.Or(x.After, &inspect.Pool{})
		owned, free := "", ""
		if x.Name == inspect.Guaranteed {
			owned, free = arrow(b.Owned, a.Owned), arrow(b.Free, a.Free)
		}
		pools.Row(inspect.FullPool(x.Name, x.Type), inspect.Sized(b.CPUs), inspect.Sized(a.CPUs), owned, free)
	}
	w.Table(pools)
	w.Section(changeTable(c))
	fmt.Fprintln(w)
	w.Paragraph(fmt.Sprintf("%s of %d have another pool or other exclusive CPUs", layout.Count(len(c.Containers), "container"), len(c.After.Containers)))
	printRefusals(w, "refused after", c.Refused)
	printRefusals(w, "refused before only", c.Granted)
	if both := len(c.After.Refused) - len(c.Refused); both > 0 {
		w.Paragraph(fmt.Sprintf("refused by both: %d", both))
	}
	for _, note := range c.After.Notes {
		w.Paragraph("note: " + note)
	}
}

// arrow is how the number of CPUs changes.
func arrow(before, after cpuset.Set) string {
	if before.Len() == after.Len() {
		return strconv.Itoa(after.Len())
	}
	return strconv.Itoa(before.Len()) + " > " + strconv.Itoa(after.Len())
}

func changeTable(c *simulate.Comparison) *layout.Table {
	t := layout.NewTable("CONTAINER OR UNIT", "BEFORE", "CPUS", "AFTER", "CPUS")
	cells := func(at *inspect.Container) (string, string) {
		switch {
		case at == nil:
			return "", ""
		case at.Refused:
			return inspect.FullPool(at.Pool, at.Type) + " (refused)", at.CPUText()
		}
		return inspect.FullPool(at.Pool, at.Type), at.CPUText()
	}
	for _, x := range c.Containers {
		was, wasOn := cells(x.Before)
		is, isOn := cells(x.After)
		t.Row(x.Name, was, wasOn, is, isOn)
	}
	return t
}
