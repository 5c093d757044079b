// Package listing paces the listings of pods and containers, and the scans of all cgroups that a
// resync starts. It has no clock of its own.
package listing

import "time"

// RetryDelay is the delay after a failed listing, and after each of maxQuick incomplete listings in
// succession. Later delays double.
const (
	RetryDelay = 5 * time.Second
	maxQuick   = 6
)

// FirstTime bounds the time for incomplete listings before the first pass. Then the daemon starts
// without the details that are missing: an object that cannot be read, or a slow runtime, must not
// keep all containers from their pools.
const FirstTime = 20 * time.Second

// Pace holds the progress of listings and scans. The zero value has no listing yet.
type Pace struct {
	busy       bool
	complete   bool      // a listing has counted
	incomplete int       // incomplete listings in succession
	first      time.Time // start of the first listing since the last error
	scheduled  time.Time // when the last scan was scheduled
	scans      bool      // the next full pass scans
}

// Begin begins a listing. It reports whether no other one is in progress.
func (p *Pace) Begin(now time.Time) bool {
	if p.busy {
		return false
	}
	p.busy = true
	if p.first.IsZero() {
		p.first = now
	}
	return true
}

// IsBusy reports whether a listing is in progress.
func (p *Pace) IsBusy() bool { return p.busy }

// HasListed reports whether the daemon knows the containers of the runtime.
func (p *Pace) HasListed() bool { return p.complete }

// Fail ends a listing with an error. It returns the delay to the next listing, instead of period.
func (p *Pace) Fail(period time.Duration) time.Duration {
	p.busy, p.first = false, time.Time{}
	return min(RetryDelay, period)
}

// End ends a listing. It is incomplete if some objects could not be read. These objects keep their
// CPUs and get no new ones, so the next listing comes earlier, with growing delays. Early reports
// whether the first pass should wait for it.
func (p *Pace) End(incomplete bool, now time.Time, period time.Duration) (delay time.Duration, early bool) {
	p.busy = false
	if !incomplete {
		p.incomplete, p.complete = 0, true
		return period, false
	}
	delay = min(RetryDelay, period)
	for range p.incomplete - maxQuick {
		delay = min(2*delay, period)
	}
	p.incomplete++
	early = !p.complete && now.Add(delay).Before(p.first.Add(FirstTime))
	p.complete = !early
	return delay, early
}

// ScheduleScan schedules a scan if the last one was scheduled at least a period ago. It reports
// whether it has. Listings of a runtime without events are more frequent than scans.
func (p *Pace) ScheduleScan(now time.Time, period time.Duration) bool {
	if now.Sub(p.scheduled) < period {
		return false
	}
	p.scheduled, p.scans = now, true
	return true
}

// Scan reports whether a scan is scheduled, and begins it.
func (p *Pace) Scan() bool {
	scans := p.scans
	p.scans = false
	return scans
}
