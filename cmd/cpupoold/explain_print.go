package main

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

// shownEvents is how many events of a subject a table has at most.
const shownEvents = 12

// printExplanation prints an explanation for people, 80 columns wide.
func printExplanation(to io.Writer, e *inspect.Explanation) error {
	w := bufio.NewWriter(to) // it keeps the first error
	for i := range e.Subjects {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := printSubject(w, &e.Subjects[i]); err != nil {
			return err
		}
	}
	return w.Flush()
}

func printSubject(w io.Writer, s *inspect.Subject) error {
	c := &s.Container
	what := "container"
	if c.Unit {
		what = "unit"
	}
	state := ""
	if c.State != "" {
		state = ", " + c.State
	}
	say := func(format string, args ...any) {
		for _, line := range wrap(fmt.Sprintf(format, args...)) {
			fmt.Fprintln(w, line)
		}
	}
	say("%s %s%s: %s", what, c.Full(), state, placeLine(c))
	say("because: %s (%s)", c.Reason, c.Code)
	if link := codes.Link(c.Code); link != "" {
		fmt.Fprintln(w, "see "+link) // in one line, so that a terminal opens it
	}
	fmt.Fprintln(w, "\nrules, in the order in which they were tried:")
	for _, r := range s.Rules {
		met := "no:"
		if r.Met {
			met = "YES:"
		}
		text := r.Statement
		if r.Answer != "" {
			text += ": " + r.Answer
		}
		say("- %s %s", met, text)
	}
	for i, c := range s.Candidates {
		if i == 0 {
			fmt.Fprintln(w, "\nwhere CPUs of its own could be, as if it had none now:")
		}
		say("- %s, free %s: %s", c.Part, cmp.Or(c.Free.String(), "none"), c.Why)
	}
	for i, c := range s.Changes {
		if i == 0 {
			fmt.Fprintln(w, "\nwhat would change it, tried on the node as it is now:")
		}
		say("- %s: %s", c.What, c.Then)
	}
	if err := printCgroup(w, s); err != nil {
		return err
	}
	for _, p := range s.Problems {
		say("not honoured: %s", problemLine(&p))
	}
	for _, f := range s.Faults {
		say("not as planned: %s", f.Error)
	}
	for _, x := range s.Waits {
		say("waits: %s: %s", x.Property, x.Reason)
	}
	printHistory(w, s)
	return nil
}

// placeLine says where something is to run.
func placeLine(c *inspect.Container) string {
	cpus := "no CPUs of its own set"
	switch {
	case c.Exclusive:
		cpus = "its own " + cpusText(c.CPUs.String(), c.CPUs.Len())
	case !c.CPUs.IsEmpty():
		cpus = cpusText(c.CPUs.String(), c.CPUs.Len())
	}
	if !c.Mixed.IsEmpty() {
		cpus += " and shared " + c.Mixed.String()
	}
	text := inspectPool(c.Pool, c.Type) + " pool, " + cpus
	if c.Pool == inspect.Other {
		text = "another manager's, " + cpus
	}
	if c.Mode != "" {
		text += ", kept by " + c.Mode
	}
	return text
}

func cpusText(cpus string, n int) string {
	if n == 1 {
		return "CPU " + cpus
	}
	return "CPUs " + cpus
}

// printCgroup prints what the kernel says beside what was to be.
func printCgroup(w io.Writer, s *inspect.Subject) error {
	k := s.Kernel
	if k == nil {
		_, err := fmt.Fprintln(w, "\nit has no cgroup at the moment, so that the kernel has nothing to say")
		return err
	}
	fmt.Fprintln(w)
	for _, line := range wrap("cgroup " + k.Cgroup) {
		fmt.Fprintln(w, line)
	}
	want := s.Wanted
	if want == nil {
		want = &inspect.Wanted{}
	}
	weight, quota := "", ""
	if want.Weight > 0 {
		weight = strconv.FormatUint(want.Weight, 10)
	}
	switch {
	case want.Unlimited:
		quota = "max"
	case want.Quota > 0:
		quota = fmt.Sprintf("%d %d", want.Quota, want.Period)
	}
	t := &narrow{}
	t.row("FILE", "THE KERNEL SAYS", "IS TO BE")
	t.row("cpuset.cpus", k.CPUs, want.CPUs.String())
	t.row("cpuset.cpus.effective", k.Effective, "")
	t.row("cpuset.cpus.partition", k.Partition, "")
	t.row("cpuset.mems", k.Mems, want.Mems.String())
	t.row("cpuset.mems.effective", k.MemsEffective, "")
	t.row("cpu.weight", k.Weight, weight)
	t.row("cpu.max", k.Max, quota)
	if err := t.print(w); err != nil {
		return err
	}
	if k.Error != "" {
		for _, line := range wrap("not all of it could be read: " + k.Error) {
			fmt.Fprintln(w, line)
		}
	}
	return nil
}

// printHistory prints the latest events.
func printHistory(w io.Writer, s *inspect.Subject) {
	all := s.Events
	if len(all) == 0 {
		fmt.Fprintln(w, "\nno events of it are kept")
		return
	}
	shown := all[max(len(all)-shownEvents, 0):]
	text := "what was decided and written:"
	if earlier := s.Earlier + len(all) - len(shown); earlier > 0 {
		of := cmp.Or(strings.Trim(s.Container.Namespace+"/"+s.Container.Pod, "/"), s.Container.Name)
		text = fmt.Sprintf("what was decided and written, the latest (%d more: cpupoold events --pod %s):", earlier, of)
	}
	for i, line := range wrap(text) {
		if i == 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintln(w, line)
	}
	for i := range shown {
		for _, line := range wrap("  " + eventLine(&shown[i])) {
			fmt.Fprintln(w, line)
		}
	}
}
