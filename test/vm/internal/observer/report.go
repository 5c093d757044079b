package observer

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Report holds the results of an observer.
type Report struct {
	Rounds   int           `json:"rounds"`
	Lasted   time.Duration `json:"lasted"`       // nanoseconds, as all durations
	MaxRound time.Duration `json:"longestRound"` // shorter overlaps can be missed
	// Overlaps holds the overlaps by cause.
	Overlaps map[string]Overlaps `json:"overlaps"`
}

// Overlaps summarises the overlaps of one cause.
type Overlaps struct {
	Count   int           `json:"count"`
	Longest time.Duration `json:"longest"` // an upper bound, see interval
	Example string        `json:"example"` // the longest one
}

// limits returns the longest overlap of each cause that docs/explanation/isolation.md allows. A cause
// without a limit is never allowed.
func limits() map[string]time.Duration {
	return map[string]time.Duration{
		externalWrite:   30 * time.Second,
		unrepairedWrite: time.Minute,
		beforeExec:      5 * time.Second,
		withoutDaemon:   time.Minute,
		pauseBegins:     10 * time.Second,
		runtimeInit:     5 * time.Second,
		failedCreate:    30 * time.Second,
	}
}

// Rate returns the number of rounds in a second.
func (r Report) Rate() float64 {
	if r.Lasted == 0 {
		return 0
	}
	return float64(r.Rounds) / r.Lasted.Seconds()
}

// Plus returns the sum of two reports.
func (r Report) Plus(other Report) Report {
	sum := Report{Rounds: r.Rounds + other.Rounds, Lasted: r.Lasted + other.Lasted, MaxRound: max(r.MaxRound, other.MaxRound), Overlaps: maps.Clone(r.Overlaps)}
	if sum.Overlaps == nil {
		sum.Overlaps = make(map[string]Overlaps)
	}
	for cause, o := range other.Overlaps {
		sum.add(cause, o)
	}
	return sum
}

// add adds overlaps of a cause.
func (r *Report) add(cause string, o Overlaps) {
	was := r.Overlaps[cause]
	if o.Longest < was.Longest {
		o.Longest, o.Example = was.Longest, was.Example
	}
	o.Count += was.Count
	r.Overlaps[cause] = o
}

// Excess returns the overlaps that docs/explanation/isolation.md does not allow.
func (r Report) Excess() (all []string) {
	for _, cause := range slices.Sorted(maps.Keys(r.Overlaps)) {
		o := r.Overlaps[cause]
		switch limit, allowed := limits()[cause]; {
		case !allowed:
			all = append(all, fmt.Sprintf("%s: %d times: %s", cause, o.Count, o.Example))
		case o.Longest > limit:
			all = append(all, fmt.Sprintf("%s: longer than %v: %s", cause, limit, o.Example))
		}
	}
	return all
}
