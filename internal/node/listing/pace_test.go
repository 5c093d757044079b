package listing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/listing"
)

const period = 5 * time.Minute

// TestDelays checks the delays after incomplete listings, and that a complete one resets them.
func TestDelays(t *testing.T) {
	var p listing.Pace
	now := time.Unix(1000, 0)
	var delays []time.Duration
	for range 14 {
		p.Begin(now)
		delay, _ := p.End(true, now, period)
		delays = append(delays, delay/time.Second)
	}
	if want := []time.Duration{5, 5, 5, 5, 5, 5, 5, 10, 20, 40, 80, 160, 300, 300}; !slices.Equal(delays, want) {
		t.Errorf("delays of %v s; want %v", delays, want)
	}
	if delay, early := p.End(false, now, period); delay != period || early {
		t.Errorf("delay %v after a complete listing, early %t", delay, early)
	}
	if delay, _ := p.End(true, now, period); delay != listing.RetryDelay {
		t.Errorf("delay %v after the first incomplete listing; want %v", delay, listing.RetryDelay)
	}
	if delay, _ := p.End(true, now, time.Second); delay != time.Second {
		t.Errorf("delay %v with a shorter period; want %v", delay, time.Second)
	}
}

// TestFirst checks how long the first pass waits for a complete listing.
func TestFirst(t *testing.T) {
	now := time.Unix(1000, 0)
	var p listing.Pace
	if !p.Begin(now) || p.Begin(now) || !p.IsBusy() {
		t.Error("two listings at a time, or none")
	}
	if delay := p.Fail(period); delay != listing.RetryDelay || p.IsBusy() || p.HasListed() {
		t.Errorf("after an error: delay %v, busy %t, listed %t", delay, p.IsBusy(), p.HasListed())
	}
	began := now.Add(time.Hour) // the time before the error does not count
	for _, c := range []struct {
		after time.Duration
		early bool
	}{{0, true}, {listing.FirstTime - listing.RetryDelay - 1, true}, {listing.FirstTime - listing.RetryDelay, false}, {0, false}} {
		p.Begin(began.Add(c.after))
		if _, early := p.End(true, began.Add(c.after), period); early != c.early || p.HasListed() == early {
			t.Errorf("after %v: early %t, listed %t; want early %t", c.after, early, p.HasListed(), c.early)
		}
	}
}

// TestScan checks that scans have the distance of a period, and that each is made once.
func TestScan(t *testing.T) {
	now := time.Unix(1000, 0)
	var p listing.Pace
	if !p.ScheduleScan(now, period) {
		t.Error("the first resync schedules no scan")
	}
	if !p.Scan() || p.Scan() {
		t.Error("the scan is not made, or twice")
	}
	if p.ScheduleScan(now.Add(period-1), period) || p.Scan() {
		t.Error("a scan before the end of the period")
	}
	if !p.ScheduleScan(now.Add(period), period) || !p.Scan() {
		t.Error("no scan after a period")
	}
}
