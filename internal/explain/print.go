package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/codes"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
)

// shownEvents is the maximum number of events that Print writes for a subject.
const shownEvents = 12

// Print writes an explanation as text: each sentence once, with the fix and the
// CPUs. With details, rules, candidates, changes, the cgroup and events of each subject follow.
func Print(w *layout.Writer, e *inspect.Explanation, details bool) {
	p := &printer{w}
	for i := 0; i < len(e.Subjects); {
		same := i + 1
		for same < len(e.Subjects) && e.Subjects[same].Sentence == e.Subjects[i].Sentence {
			same++
		}
		p.answer(e.Subjects[i:same])
		i = same
	}
	for _, note := range e.Notes {
		p.say("note: %s", note)
	}
	for i := 0; details && i < len(e.Subjects); i++ {
		p.details(&e.Subjects[i])
	}
}

type printer struct{ *layout.Writer }

func (p *printer) say(format string, args ...any) { p.Paragraph(fmt.Sprintf(format, args...)) }

// head writes the heading of a part, after an empty line.
func (p *printer) head(format string, args ...any) {
	fmt.Fprintln(p)
	p.say(format, args...)
}

// answer writes the sentence of subjects that have the same.
func (p *printer) answer(of []inspect.Subject) {
	p.say("%s", of[0].Sentence)
	if of[0].Fix != "" {
		p.say("fix: %s", of[0].Fix)
	}
	var cpus []string
	for i := range of {
		c := &of[i].Container
		text := c.CPUs.String()
		if text == "" {
			continue
		}
		if !c.Mixed.IsEmpty() {
			text += " and shared " + c.Mixed.String()
		}
		if slices.ContainsFunc(of, func(o inspect.Subject) bool { return !o.Container.CPUs.Equal(c.CPUs) }) {
			text = c.Name + " " + text
		}
		cpus = append(cpus, text)
	}
	if cpus = slices.Compact(cpus); len(cpus) > 0 {
		p.say("CPUs: %s", strings.Join(cpus, ", "))
	}
}

func (p *printer) details(s *inspect.Subject) {
	c := &s.Container
	what := "container"
	if c.Unit {
		what = "unit"
	}
	what += " " + c.Full()
	if c.State != "" {
		what += ", " + c.State
	}
	if c.Mode != "" {
		what += ", CPUs kept by " + c.Mode
	}
	p.head("%s: %s (%s)", what, c.Reason, c.Code)
	if link := codes.Link(c.Code); link != "" {
		fmt.Fprintln(p, "see "+link) // in one line, so that a terminal opens it
	}
	p.head("rules, in the order in which they were tried:")
	for _, r := range s.Rules {
		met := "no:"
		if r.Met {
			met = "YES:"
		}
		text := r.Statement
		if r.Answer != "" {
			text += ": " + r.Answer
		}
		p.say("- %s %s", met, text)
	}
	for i, c := range s.Candidates {
		if i == 0 {
			p.head("places for exclusive CPUs, on a node without this container:")
		}
		p.say("- %s, free %s: %s", c.Part, cmp.Or(c.Free.String(), "none"), c.Why)
	}
	for i, c := range s.Changes {
		if i == 0 {
			p.head("changes that lead to other CPUs, each tried on the present node:")
		}
		p.say("- %s: %s", c.What, c.Then)
	}
	p.cgroup(s)
	for i := range s.Claims {
		p.claim(&s.Claims[i], c.Name)
	}
	for _, x := range s.Problems {
		p.say("problem: %s (%s)", x.Text, x.Code)
	}
	for _, f := range s.Faults {
		p.say("differs from the desired state: %s", f.Error)
	}
	for _, x := range s.Waits {
		p.say("waits: %s: %s", x.Property, x.Reason)
	}
	p.events(s)
}

// claim writes the CPUs of a claim, and the other containers that use them.
func (p *printer) claim(c *inspect.Claim, container string) {
	p.head("claim %s (UID %s): %s (%s)", c.Full(), c.UID, c.Reason, c.Code)
	for _, part := range c.Parts {
		p.say("- request %s, device %s: CPUs %s", part.Request, part.Device, cmp.Or(part.CPUs.String(), "none"))
	}
	if !c.Away.IsEmpty() {
		p.say("- not usable now: CPUs %s", c.Away)
	}
	if others := slices.DeleteFunc(slices.Clone(c.Containers), func(name string) bool { return name == container }); len(others) > 0 {
		p.say("- shared with %s of the pod: %s", layout.Count(len(others), "other container"), strings.Join(others, ", "))
	}
}

// cgroup writes the files of the cgroup next to their desired values.
func (p *printer) cgroup(s *inspect.Subject) {
	k := s.Kernel
	if k == nil {
		return
	}
	p.head("cgroup %s", k.Cgroup)
	want := cmp.Or(s.Wanted, &inspect.Wanted{})
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
	t := layout.NewTable("FILE", "PRESENT", "DESIRED")
	t.Row("cpuset.cpus", k.CPUs, want.CPUs.String())
	t.Row("cpuset.cpus.effective", k.Effective, "")
	t.Row("cpuset.cpus.partition", k.Partition, "")
	t.Row("cpuset.mems", k.Mems, want.Mems.String())
	t.Row("cpuset.mems.effective", k.MemsEffective, "")
	t.Row("cpu.weight", k.Weight, weight)
	t.Row("cpu.max", k.Max, quota)
	p.Table(t)
	if k.Error != "" {
		p.say("not all files could be read: %s", k.Error)
	}
}

func (p *printer) events(s *inspect.Subject) {
	all := s.Events
	if len(all) == 0 {
		return
	}
	shown := all[max(len(all)-shownEvents, 0):]
	text := "decisions and writes:"
	if earlier := s.Earlier + len(all) - len(shown); earlier > 0 {
		of := cmp.Or(strings.Trim(s.Container.Namespace+"/"+s.Container.Pod, "/"), s.Container.Name)
		text = fmt.Sprintf("the latest decisions and writes (%d more: cpupoold events --pod %s):", earlier, of)
	}
	p.head("%s", text)
	for i := range shown {
		p.say("  %s", EventLine(&shown[i]))
	}
}

// EventLine returns an event as one line of text.
func EventLine(e *history.Event) string {
	parts := []string{e.Time.Local().Format("2006-01-02 15:04:05.000"), fmt.Sprintf("%-8s", e.Kind), aboutEvent(e)}
	parts = append(parts, whatOf(e)...)
	if e.Cause != "" || e.Code != "" {
		parts = append(parts, "#", e.Cause)
		if e.Code != "" {
			parts = append(parts, "("+e.Code+")")
		}
	}
	if e.Error != "" {
		parts = append(parts, "! "+e.Error)
	}
	kept := parts[:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, layout.Printable(p))
		}
	}
	return strings.Join(kept, " ")
}

// aboutEvent returns the name of the object of an event. It is the cgroup if there is no other.
func aboutEvent(e *history.Event) string {
	name := cmp.Or(e.Pod, e.PodUID)
	if e.Container != "" {
		name += "/" + e.Container
	}
	if e.Claim != "" {
		name = strings.TrimSpace("claim " + e.Claim + " " + name)
	}
	return cmp.Or(e.Unit, name, e.Cgroup)
}

// whatOf returns the new value, and the old one if there is one.
func whatOf(e *history.Event) []string {
	change := e.Value
	if e.Before != "" && e.Before != e.Value {
		change = e.Before + " → " + e.Value
	}
	switch {
	case e.Property != "" && e.Via != "":
		return []string{e.Via, e.Property + "=" + e.Value}
	case e.Property != "":
		return []string{e.Property, change}
	}
	return []string{e.Pool, change}
}
