package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/audit"
)

func printAudit(w *layout.Writer, r audit.Report) {
	fmt.Fprintf(w, "%.1f s, %s of %d tasks, which took %.2f s of CPU time\n\n", r.Seconds, layout.Count(r.Scans, "scan"), r.Tasks, r.Cost)
	out := layout.NewTable("POOL OR OWNER", "CPUS", "SCORE", "OTHERS", "UNSEEN", "TASKS", "IRQS", "FIRED")
	for _, s := range r.Scores {
		name := inspect.FullPool(s.Pool, s.Type)
		if s.Name != "" {
			name = " " + path.Join(s.Pod, s.Name)
		}
		var rated, others, unseen string // empty without two scans
		if s.Score != nil {
			rated, others, unseen = score(*s.Score), fmt.Sprintf("%.3fs", s.Others), fmt.Sprintf("%.2fs", s.Unseen)
		}
		out.Row(layout.Middle(name, 24), layout.Middle(s.CPUs.String(), 9), rated, others, unseen, fmt.Sprint(s.ExposedTasks), fmt.Sprint(s.ExposedInterrupts), fmt.Sprint(s.DeviceInterrupts))
	}
	if len(r.Scores) == 0 {
		out.Row("-", "-", "-", "-", "-", "-", "-", "-")
	}
	w.Table(out)
	if r.NoScore != "" {
		w.Paragraph("no score: " + r.NoScore)
	}
	printFound(w, r.Findings)
	printKernel(w, r.Kernel)
	if !r.Changed.IsEmpty() {
		fmt.Fprintf(w, "CPUs %s got other owners during the audit and were not judged\n", r.Changed)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(w, "not read: %s\n", layout.Printable(u))
	}
}

func printFound(w *layout.Writer, found []audit.Finding) {
	if len(found) == 0 {
		fmt.Fprintln(w, "\nNo task was found on CPUs of another owner.")
		return
	}
	ran := slices.IndexFunc(found, func(f audit.Finding) bool { return f.Ran.IsEmpty() }) // tasks that were only allowed come last
	if ran < 0 {
		ran = len(found)
	}
	for _, part := range []struct {
		title, unit string
		of          []audit.Finding
	}{{"Ran on CPUs of another owner:", "RAN", found[:ran]}, {"Was allowed to:", "RAN", found[ran:]}} {
		if len(part.of) == 0 {
			continue
		}
		fmt.Fprintln(w, "\n"+part.title)
		out := layout.NewTable("RUNS IN", "TASK", "CPUS", part.unit, "OWNER")
		for _, f := range part.of {
			cpus, amount := f.Ran, fmt.Sprintf("%.3fs", f.RanSeconds)
			switch {
			case f.Kind == audit.Interrupt:
				amount = fmt.Sprintf("%d times", f.Count)
			case f.Ran.IsEmpty():
				cpus, amount = f.Allowed, ""
			}
			out.Row(layout.Middle(placeOf(f), 24), layout.Middle(tasks(f), 16), layout.Middle(cpus.String(), 9), amount, layout.Middle(cmp.Or(path.Join(f.Owner.Pod, f.Owner.Name), inspect.FullPool(f.Owner.Pool, f.Owner.Type)), 15))
		}
		w.Table(out)
	}
}

// printKernel prints a line for each owner.
func printKernel(w *layout.Writer, works []audit.KernelWork) {
	if len(works) == 0 {
		return
	}
	fmt.Fprintln(w, "\nWork of the kernel that cannot be moved, by the owner of the CPUs:")
	out := layout.NewTable("OWNER", "THREADS", "RAN", "SOFTIRQS", "INTERRUPTS")
	for len(works) > 0 {
		o := works[0].Owner
		end := slices.IndexFunc(works, func(w audit.KernelWork) bool { return w.Owner.Pod != o.Pod || w.Owner.Name != o.Name })
		if end < 0 {
			end = len(works)
		}
		threads, ran, softirqs := 0, 0.0, uint64(0)
		var interrupts []audit.KernelWork
		for _, work := range works[:end] {
			threads += work.Tasks
			ran += work.Seconds
			switch work.Class {
			case "softirq":
				softirqs += work.Count
			case "interrupt":
				interrupts = append(interrupts, work)
			}
		}
		slices.SortStableFunc(interrupts, func(a, b audit.KernelWork) int { return cmp.Compare(b.Count, a.Count) })
		var most []string
		for _, work := range interrupts[:min(len(interrupts), 3)] {
			most = append(most, fmt.Sprintf("%s %d", work.Name, work.Count))
		}
		out.Row(layout.Middle(cmp.Or(path.Join(o.Pod, o.Name), inspect.FullPool(o.Pool, o.Type)), 24), fmt.Sprint(threads), fmt.Sprintf("%.3fs", ran), fmt.Sprint(softirqs), layout.Middle(strings.Join(most, ", "), 26))
		works = works[end:]
	}
	w.Table(out)
}

// inPod returns the name of a cgroup in a pod that belongs to no container, with a space. It
// returns "" for a container.
func inPod(container string) string {
	return map[string]string{"(monitor)": "conmon of ", "(sandbox)": "VM of ", "(other)": "in "}[container] // desired.Settings.Ownership
}

// placeOf returns the unit or the container that a finding is in.
func placeOf(f audit.Finding) string {
	switch {
	case f.Pod != "" && inPod(f.Container) != "":
		return inPod(f.Container) + f.Pod
	case f.Pod != "":
		return f.Pod + "/" + f.Container
	case f.Unit != "":
		return f.Unit
	case f.Kind == audit.Process:
		return "/" + f.Cgroup
	case f.Kind == audit.Interrupt:
		return "interrupt"
	}
	return "kernel"
}

// tasks names the tasks of a finding, a single one with its number.
func tasks(f audit.Finding) string {
	switch {
	case f.Kind == audit.Interrupt:
		return strings.TrimPrefix(f.Name, "IRQ ")
	case f.TaskCount == 1:
		return fmt.Sprintf("%s[%d]", layout.Middle(f.Name, 10), f.Tasks[0].TID)
	}
	return fmt.Sprintf("%s ×%d", layout.Middle(f.Name, 12), f.TaskCount)
}

// score formats a score, which is 100 only without any foreign task.
func score(s float64) string {
	text := fmt.Sprintf("%.3f", s)
	if text == "100.000" {
		if s < 100 {
			return "<100"
		}
		return "100"
	}
	return text
}
