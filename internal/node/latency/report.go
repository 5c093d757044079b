package latency

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Report holds the result of a measurement.
type Report struct {
	Tracer  string     `json:"tracer"` // osnoise or timerlat
	CPUs    cpuset.Set `json:"cpus"`
	Seconds float64    `json:"seconds"`
	// Ended is the reason why the measurement ended before its time.
	Ended string `json:"ended,omitempty"`
	// Threshold is the shortest gap that osnoise counts.
	Threshold uint64 `json:"thresholdNanoseconds,omitempty"`
	// Virtual is true in a virtual machine. Times then include the work of its host.
	Virtual bool  `json:"virtual"`
	PerCPU  []CPU `json:"perCPU"`
	// Gaps are the longest gaps of each CPU, at most ten, all in descending order.
	Gaps []Gap `json:"gaps"`
	// Changed are the tracing settings that were changed for the measurement, and are restored.
	Changed []string `json:"changed"`
	// Kept are settings that another process changed meanwhile, and that keep its values.
	Kept []string `json:"kept,omitempty"`
	// Cleaned are the remains of an earlier, killed measurement that were removed.
	Cleaned []string `json:"cleaned,omitempty"`
	// Unread are objects of the node that could not be read.
	Unread []string `json:"unread,omitempty"`
}

// CPU holds the counts of a CPU. With osnoise, a gap is a time of at least the threshold in which the
// sampling thread did not run. With timerlat, it is the time from the expiry of a timer to the thread
// that the timer wakes.
type CPU struct {
	CPU      int    `json:"cpu"`
	Gaps     uint64 `json:"gaps"`
	Longest  uint64 `json:"longestNanoseconds"`
	Total    uint64 `json:"totalNanoseconds"`
	IRQs     uint64 `json:"irqs"`
	Softirqs uint64 `json:"softirqs"`
	Threads  uint64 `json:"threads"`
	NMIs     uint64 `json:"nmis"`
	// Hardware counts gaps of osnoise without an event of the kernel: firmware or a hypervisor.
	Hardware uint64 `json:"hardware"`
	// LongestIRQ is the longest time from the expiry of the timer to its interrupt (timerlat).
	LongestIRQ uint64 `json:"longestInterruptNanoseconds,omitempty"`
	// Causes are the events with the most time, in all gaps and between them. Others counts events that are not listed.
	Causes []Cause `json:"causes"`
	Others uint64  `json:"others,omitempty"`
	// Lost counts events that the kernel dropped, Unreadable lines that were not understood.
	Lost       uint64 `json:"lost"`
	Unreadable uint64 `json:"unreadable"`
	// Stopped is true if the kernel ended the measurement of this CPU, because another process tried to
	// move its thread.
	Stopped bool `json:"stopped,omitempty"`
}

// Gap is an interruption of a CPU.
type Gap struct {
	CPU int `json:"cpu"`
	// At is the begin in the kernel's clock, as in dmesg. 0 is unknown.
	At          uint64 `json:"atNanoseconds"`
	Nanoseconds uint64 `json:"nanoseconds"`
	// IRQ is the part until the interrupt of the timer (timerlat).
	IRQ uint64 `json:"interruptNanoseconds,omitempty"`
	// Causes are the events in the gap, the longest first. Others counts events that are not listed.
	Causes []Cause `json:"causes"`
	Others uint64  `json:"others,omitempty"`
	// Unexplained is the time in no event: switches between tasks, firmware, a hypervisor.
	Unexplained uint64 `json:"unexplainedNanoseconds"`
}

// Cause is work of one origin in a gap. The time is without the time of events that interrupted it.
type Cause struct {
	Kind string `json:"kind"` // irq, softirq, thread, nmi or hardware
	Name string `json:"name,omitempty"`
	// ID is the number of the interrupt, the softirq or the thread.
	ID          int    `json:"id"`
	Count       uint64 `json:"count"`
	Nanoseconds uint64 `json:"nanoseconds"`
}

// add counts an event of a cause. With limit, it returns false for a cause too many.
func add(causes []Cause, c Cause, limit int) ([]Cause, bool) {
	i := slices.IndexFunc(causes, func(o Cause) bool { return o.Kind == c.Kind && o.Name == c.Name && o.ID == c.ID })
	switch {
	case i >= 0:
		causes[i].Count += c.Count
		causes[i].Nanoseconds += c.Nanoseconds
	case len(causes) < limit:
		causes = append(causes, c)
	default:
		return causes, false
	}
	return causes, true
}

// longest returns at most maxCauses causes, the longest first, and the number of events of the others.
func longest(causes []Cause) ([]Cause, uint64) {
	all := slices.Clone(causes)
	slices.SortStableFunc(all, func(a, b Cause) int { return cmp.Compare(b.Nanoseconds, a.Nanoseconds) })
	first := all[:min(len(all), maxCauses)]
	var others uint64
	for _, c := range all[len(first):] {
		others += c.Count
	}
	return first, others
}

// sortGaps puts the longest gap first.
func sortGaps(gaps []Gap) {
	slices.SortStableFunc(gaps, func(a, b Gap) int {
		return cmp.Or(cmp.Compare(b.Nanoseconds, a.Nanoseconds), cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.At, b.At))
	})
}
