package latency

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a trace. A thread chooses its own name, with newlines as well.
const (
	maxLine   = 512
	maxName   = 15 // TASK_COMM_LEN without the final byte, include/linux/sched.h
	maxRecent = 64 // events that wait for the gap that they caused
	maxGaps   = 10
	maxCauses = 8
	// maxTime is the longest duration in nanoseconds: a day, which is longer than a measurement.
	maxTime = 24 * 3600 * 1_000_000_000
)

// Parser reads the text of the trace of one CPU, without the columns of the context (trace option
// nocontext-info). The events of osnoise have the formats of include/trace/events/osnoise.h, and the lines
// of timerlat that of trace_timerlat_print in kernel/trace/trace_output.c (Linux 6.1 to 7.2). It skips other lines.
//
// The text of a line after the name of a thread is longer than a name can be. So a thread cannot write a
// line of its own: a line that ends too early goes on in the next one.
type Parser struct {
	CPU int

	line     []byte
	tooLong  bool
	open     string // line of a thread with a newline in its name
	recent   []noise
	fired    bool   // the timer of timerlat has fired
	timer    int    // events in recent at that time
	timerIRQ uint64 // time until then
	counts   CPU
	causes   []Cause // of all events, at most maxRecent
	gaps     []Gap
}

// noise is an event of osnoise.
type noise struct {
	Cause

	start uint64
}

// Write takes the next part of the text. It never fails.
func (p *Parser) Write(text []byte) (int, error) {
	n := len(text)
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		part := text
		if end >= 0 {
			part = text[:end]
		}
		if p.tooLong = p.tooLong || len(p.line)+len(part) > maxLine; !p.tooLong {
			p.line = append(p.line, part...)
		}
		if end < 0 {
			break
		}
		text = text[end+1:]
		if p.tooLong {
			p.counts.Unreadable++
		} else {
			p.read(string(p.line))
		}
		p.line, p.tooLong = p.line[:0], false
	}
	return n, nil
}

// Result returns the counts and the longest gaps so far.
func (p *Parser) Result() (CPU, []Gap) {
	gaps := slices.Clone(p.gaps)
	sortGaps(gaps)
	counts := p.counts
	counts.CPU = p.CPU
	var others uint64
	counts.Causes, others = longest(p.causes)
	counts.Others += others
	return counts, gaps
}

func (p *Parser) read(line string) {
	if p.open != "" {
		if p.readThread(p.open + "\n" + line) {
			return
		}
		// p.open was no beginning of this line, which is then a line of its own.
	}
	if strings.HasPrefix(line, "CPU:") {
		p.readLost(line)
		return
	}
	if strings.HasPrefix(line, "#") {
		p.readTimer(line)
		return
	}
	kind, rest, found := strings.Cut(line, ": ")
	switch {
	case !found:
	case kind == "thread_noise":
		p.readThread(line)
	case kind == "sample_threshold":
		p.readSample(rest)
	case kind == "nmi_noise":
		start, duration, ok := parseTimes(" " + rest)
		p.note("nmi", "", ok, start, duration)
	case kind == "irq_noise" || kind == "softirq_noise":
		at := max(strings.LastIndex(rest, " start "), 0)
		start, duration, ok := parseTimes(rest[at:])
		p.note(strings.TrimSuffix(kind, "_noise"), rest[:at], ok, start, duration)
	case strings.Contains(rest, "migration requested to osnoise threads"): // osnoise_migration_pending in trace_osnoise.c
		p.counts.Stopped = true
	}
}

// readThread reads the event of a thread. It returns false for a text that is none, and cannot become one
// with the next line.
func (p *Parser) readThread(text string) bool {
	p.open = ""
	rest := strings.TrimPrefix(text, "thread_noise: ")
	at := strings.LastIndex(rest, " start ")
	if at >= 0 {
		if start, duration, ok := parseTimes(rest[at:]); ok {
			i := strings.LastIndexByte(rest[:at], ':')
			if i < 0 || len(rest[:i]) > maxName {
				p.counts.Unreadable++
				return false
			}
			p.note("thread", rest[:at], true, start, duration)
			return true
		}
	}
	if len(rest) > maxName {
		p.counts.Unreadable++
		return false
	}
	p.open = text
	return true
}

// note counts an event. The name ends with a colon and a number. The name of an NMI has no number.
func (p *Parser) note(kind, name string, ok bool, start, duration uint64) {
	id := 0
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		var err error
		id, err = strconv.Atoi(name[i+1:])
		name, ok = name[:i], ok && err == nil
	} else if kind != "nmi" {
		ok = false
	}
	if !ok {
		p.counts.Unreadable++
		return
	}
	switch kind {
	case "irq":
		p.counts.IRQs++
	case "softirq":
		p.counts.Softirqs++
	case "thread":
		p.counts.Threads++
	case "nmi":
		p.counts.NMIs++
	}
	if len(p.recent) == maxRecent {
		p.recent = slices.Delete(p.recent, 0, 1)
		p.timer = max(p.timer-1, 0)
	}
	c := Cause{Kind: kind, Name: strings.TrimLeft(name, " "), ID: id, Count: 1, Nanoseconds: duration}
	p.recent = append(p.recent, noise{c, start})
	var listed bool
	if p.causes, listed = add(p.causes, c, maxRecent); !listed {
		p.counts.Others++
	}
}

// readSample reads the event of a gap of osnoise. The events that caused the gap precede it in the trace. Events
// of a later gap may also precede it.
func (p *Parser) readSample(text string) {
	text, count, _ := strings.Cut(text, " interference ")
	start, duration, ok := parseTimes(" " + text)
	interference, err := strconv.ParseUint(count, 10, 32)
	if !ok || err != nil {
		p.counts.Unreadable++
		return
	}
	var caused, later []noise
	for _, e := range p.recent {
		switch {
		case e.start > start+duration:
			later = append(later, e)
		case e.start >= start:
			caused = append(caused, e)
		}
	}
	g := Gap{At: start, Nanoseconds: duration}
	if interference == 0 {
		p.counts.Hardware++
		caused = []noise{{Cause: Cause{Kind: "hardware", Count: 1, Nanoseconds: duration}}}
	} else {
		g.Others = interference - min(interference, uint64(len(caused)))
	}
	p.gap(g, caused)
	p.recent = append(p.recent[:0], later...)
}

// readTimer reads a line of timerlat: one when the timer has fired, one when the thread runs.
func (p *Parser) readTimer(line string) {
	fields := strings.Fields(line)
	if len(fields) != 6 || fields[1] != "context" || fields[3] != "timer_latency" || fields[5] != "ns" {
		return // a comment
	}
	latency, err := strconv.ParseUint(fields[4], 10, 64)
	if err != nil || latency > maxTime {
		p.counts.Unreadable++
		return
	}
	if fields[2] == "irq" {
		p.fired, p.timer, p.timerIRQ = true, len(p.recent), latency
		p.counts.LongestIRQ = max(p.counts.LongestIRQ, latency)
		return
	}
	g := Gap{Nanoseconds: latency}
	caused := p.recent
	if p.fired {
		// The interrupt of the timer has the first event after the line. The timer expired p.timerIRQ before.
		g.IRQ = p.timerIRQ
		if i := slices.IndexFunc(p.recent[p.timer:], func(e noise) bool { return e.Kind == "irq" }); i >= 0 {
			fired := p.recent[p.timer+i].start
			g.At = fired - min(fired, p.timerIRQ)
			caused = slices.DeleteFunc(slices.Clone(caused), func(e noise) bool { return e.start+e.Nanoseconds < g.At })
		}
	}
	p.gap(g, caused)
	p.recent, p.fired = p.recent[:0], false
}

// readLost reads "CPU:3 [LOST 12 EVENTS]".
func (p *Parser) readLost(line string) {
	_, rest, _ := strings.Cut(line, "[LOST ")
	count, _, found := strings.Cut(rest, " EVENTS]")
	n, err := strconv.ParseUint(count, 10, 64)
	if !found || err != nil {
		p.counts.Unreadable++
		return
	}
	p.counts.Lost += min(n, 1<<40)
}

// gap counts a gap, and keeps the longest ones with their causes.
func (p *Parser) gap(g Gap, caused []noise) {
	p.counts.Gaps++
	p.counts.Total += g.Nanoseconds
	p.counts.Longest = max(p.counts.Longest, g.Nanoseconds)
	g.CPU = p.CPU
	if len(p.gaps) == maxGaps {
		shortest := slices.MinFunc(p.gaps, func(a, b Gap) int { return cmp.Compare(a.Nanoseconds, b.Nanoseconds) })
		if g.Nanoseconds <= shortest.Nanoseconds {
			return
		}
		i := slices.IndexFunc(p.gaps, func(g Gap) bool { return g.Nanoseconds == shortest.Nanoseconds })
		p.gaps = slices.Delete(p.gaps, i, i+1)
	}
	g.Unexplained = g.Nanoseconds
	for _, e := range caused {
		g.Unexplained -= min(g.Unexplained, e.Nanoseconds)
		g.Causes, _ = add(g.Causes, e.Cause, maxRecent)
	}
	var others uint64
	g.Causes, others = longest(g.Causes)
	g.Others += others
	p.gaps = append(p.gaps, g)
}

// parseTimes reads " start 37.106192098 duration 25578 ns".
func parseTimes(text string) (start, duration uint64, ok bool) {
	text, begins := strings.CutPrefix(text, " start ")
	text, ends := strings.CutSuffix(text, " ns")
	at, length, cut := strings.Cut(text, " duration ")
	seconds, fraction, dot := strings.Cut(at, ".")
	if !begins || !ends || !cut || !dot || len(fraction) != len("000000000") {
		return 0, 0, false
	}
	s, err1 := strconv.ParseUint(seconds, 10, 32)
	f, err2 := strconv.ParseUint(fraction, 10, 32)
	duration, err3 := strconv.ParseUint(length, 10, 64)
	if err := cmp.Or(err1, err2, err3); err != nil || duration > maxTime {
		return 0, 0, false
	}
	return s*1_000_000_000 + f, duration, true
}
