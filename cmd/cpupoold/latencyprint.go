package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/latency"
)

// Bounds of the table of gaps.
const (
	longestGaps = 10
	mostCauses  = 3
)

// unexplained is the kind of the time in a gap without an event.
const unexplained = "unexplained"

func printLatency(w *layout.Writer, r latency.Report) {
	for _, c := range r.Cleaned {
		fmt.Fprintf(w, "restored: %s\n", layout.Printable(c))
	}
	if r.PerCPU == nil {
		return
	}
	fmt.Fprintf(w, "%s on CPUs %s for %.1f s", r.Tracer, r.CPUs, r.Seconds)
	if r.Threshold > 0 {
		fmt.Fprintf(w, ", gaps of %s or longer", nanoseconds(r.Threshold))
	}
	fmt.Fprintln(w)
	if r.Ended != "" {
		w.Paragraph("ended early: " + layout.Printable(r.Ended))
	}
	if r.Virtual {
		w.Paragraph("This machine is virtual or emulated: the counts are correct, and the times are no microseconds of hardware.")
	}
	fmt.Fprintln(w)
	out := layout.NewTable("CPU", "GAPS", "LONGEST", "TOTAL", "IRQS", "SOFTIRQS", "THREADS", "NMIS", "HARDWARE")
	for _, c := range r.PerCPU {
		out.Row(strconv.Itoa(c.CPU), fmt.Sprint(c.Gaps), nanoseconds(c.Longest), nanoseconds(c.Total), fmt.Sprint(c.IRQs), fmt.Sprint(c.Softirqs), fmt.Sprint(c.Threads), fmt.Sprint(c.NMIs), fmt.Sprint(c.Hardware))
	}
	w.Table(out)
	printCauses(w, r.PerCPU)
	printGaps(w, r.Gaps)
	for _, c := range r.PerCPU {
		if c.Stopped {
			w.Paragraph(fmt.Sprintf("CPU %d: the kernel ended the measurement, because another process tried to move its thread", c.CPU))
		}
		if c.Lost > 0 {
			w.Paragraph(fmt.Sprintf("CPU %d: the kernel dropped %d events; counts and causes are incomplete", c.CPU, c.Lost))
		}
		if c.Unreadable > 0 {
			w.Paragraph(fmt.Sprintf("CPU %d: %s not understood", c.CPU, layout.Count(int(min(c.Unreadable, 1<<30)), "line")))
		}
	}
	printTracing(w, r)
}

// printCauses lists the causes with the most time on each CPU.
func printCauses(w *layout.Writer, cpus []latency.CPU) {
	out := layout.NewTable("CPU", "CAUSE", "EVENTS", "TIME")
	rows := 0
	for _, c := range cpus {
		for _, cause := range c.Causes[:min(len(c.Causes), mostCauses)] {
			out.Row(strconv.Itoa(c.CPU), causeName(cause), fmt.Sprint(cause.Count), nanoseconds(cause.Nanoseconds))
			rows++
		}
	}
	if rows > 0 {
		fmt.Fprintln(w, "\nEvents with the most time on each CPU:")
		w.Table(out)
	}
}

func printGaps(w *layout.Writer, gaps []latency.Gap) {
	if len(gaps) == 0 {
		fmt.Fprintln(w, "\nNo gap.")
		return
	}
	fmt.Fprintln(w, "\nLongest gaps, at seconds of the kernel's clock:")
	out := layout.NewTable("CPU", "AT", "GAP", "CAUSES")
	for _, g := range gaps[:min(len(gaps), longestGaps)] {
		at := "-"
		if g.At > 0 {
			at = fmt.Sprintf("%.3f", time.Duration(g.At).Seconds())
		}
		out.Row(strconv.Itoa(g.CPU), at, nanoseconds(g.Nanoseconds), causesOf(g))
	}
	w.Table(out)
}

// causesOf lists the longest causes of a gap. Time that no event explains is one of them.
func causesOf(g latency.Gap) string {
	all := slices.Clone(g.Causes)
	if g.Unexplained > 0 {
		all = append(all, latency.Cause{Kind: unexplained, Count: 1, Nanoseconds: g.Unexplained})
	}
	slices.SortStableFunc(all, func(a, b latency.Cause) int { return cmp.Compare(b.Nanoseconds, a.Nanoseconds) })
	var texts []string
	for _, c := range all[:min(len(all), mostCauses)] {
		texts = append(texts, cause(c))
	}
	if more := uint64(max(len(all)-mostCauses, 0)) + g.Others; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// cause describes a cause by its kind, its name and its time: "thread stress[812] 4.1ms".
func cause(c latency.Cause) string {
	text := causeName(c)
	if c.Count > 1 {
		text += fmt.Sprintf(" ×%d", c.Count)
	}
	return text + " " + nanoseconds(c.Nanoseconds)
}

func causeName(c latency.Cause) string {
	name := layout.Printable(c.Name)
	switch c.Kind {
	case "thread":
		name = fmt.Sprintf("%s[%d]", name, c.ID)
	case "irq":
		name = fmt.Sprintf("%s:%d", layout.Middle(name, 16), c.ID)
	case "nmi", "hardware", unexplained:
		name = ""
	}
	return strings.TrimSpace(c.Kind + " " + name)
}

func printTracing(w *layout.Writer, r latency.Report) {
	fmt.Fprintln(w, "\nTracing settings that were changed and are restored:")
	if len(r.Changed) == 0 {
		fmt.Fprintln(w, "  none")
	}
	for _, c := range r.Changed {
		fmt.Fprintf(w, "  %s\n", layout.Printable(c))
	}
	for _, k := range r.Kept {
		fmt.Fprintf(w, "  kept %s\n", layout.Printable(k))
	}
	printUnread(w, r.Unread)
}

// nanoseconds formats a time with three digits: 812ns, 4.05µs, 12.3ms.
func nanoseconds(n uint64) string {
	value, unit := float64(n), "ns"
	for _, next := range []string{"µs", "ms", "s"} {
		if value < 999.5 {
			break
		}
		value, unit = value/1000, next
	}
	if unit == "ns" {
		return fmt.Sprintf("%.0f%s", value, unit)
	}
	digits := 2
	switch {
	case value >= 99.95:
		digits = 0
	case value >= 9.995:
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + unit
}
