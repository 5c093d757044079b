package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/audit"
)

// sample holds the kernel's counters at one time.
type sample struct {
	interrupts, softirqs []audit.Line
	// voluntary and involuntary are the thread's context switches.
	voluntary, involuntary uint64
}

// Event is something that happened on a CPU.
type Event struct {
	// Sort is interrupt, tick, softirq or switch.
	Sort string `json:"sort"`
	// Name is the name in /proc/interrupts or /proc/softirqs, with its description there.
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// takeSample reads the counters of a thread and of the machine.
func takeSample(proc fs.FS, tid int) (sample, error) {
	var s sample
	b, err := fs.ReadFile(proc, "interrupts")
	if err == nil {
		s.interrupts, err = audit.ParseCounts(b)
	}
	if err != nil {
		return s, err
	}
	if b, err = fs.ReadFile(proc, "softirqs"); err == nil {
		s.softirqs, err = audit.ParseCounts(b)
	}
	if err != nil {
		return s, err
	}
	if b, err = fs.ReadFile(proc, "self/task/"+strconv.Itoa(tid)+"/status"); err != nil {
		return s, err
	}
	s.voluntary, s.involuntary, err = switches(b)
	return s, err
}

// switches reads the context switches of /proc/PID/task/TID/status.
func switches(status []byte) (voluntary, involuntary uint64, err error) {
	found := 0
	for line := range bytes.Lines(status) {
		key, value, _ := strings.Cut(string(line), ":")
		to := map[string]*uint64{"voluntary_ctxt_switches": &voluntary, "nonvoluntary_ctxt_switches": &involuntary}[key]
		if to == nil {
			continue
		}
		if *to, err = strconv.ParseUint(strings.TrimSpace(value), 10, 64); err != nil {
			return 0, 0, fmt.Errorf("status: %s: %w", key, err)
		}
		found++
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("status: %d of 2 lines with context switches", found)
	}
	return voluntary, involuntary, nil
}

// events returns the events on a CPU between two samples, the most frequent first. A
// counter without an earlier value began at 0. A counter that is gone, or that has
// restarted, is skipped.
func events(before, after sample, cpu int) []Event {
	var all []Event
	add := func(sort, name string, was, is uint64) {
		if is > was {
			all = append(all, Event{sort, name, is - was})
		}
	}
	lines := func(sort string, before, after []audit.Line) {
		was := make(map[string]uint64)
		for _, l := range before {
			was[l.Name] = l.Counts[cpu]
		}
		for _, l := range after {
			sort := sort
			if sort == "interrupt" && isTick(l) {
				sort = "tick"
			}
			add(sort, strings.TrimSpace(l.Name+" "+strings.Join(strings.Fields(l.Text), " ")), was[l.Name], l.Counts[cpu])
		}
	}
	lines("interrupt", before.interrupts, after.interrupts)
	lines("softirq", before.softirqs, after.softirqs)
	add("switch", "voluntary", before.voluntary, after.voluntary)
	add("switch", "involuntary", before.involuntary, after.involuntary)
	slices.SortFunc(all, func(a, b Event) int {
		return cmp.Or(strings.Compare(a.Sort, b.Sort), cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	return all
}

// isTick reports whether an interrupt is the local timer: LOC on x86, arch_timer on
// arm64.
func isTick(l audit.Line) bool { return l.Name == "LOC" || strings.Contains(l.Text, "arch_timer") }

// total returns the number of events of a kind.
func total(all []Event, sort string) (n uint64) {
	for _, e := range all {
		if e.Sort == sort {
			n += e.Count
		}
	}
	return n
}
