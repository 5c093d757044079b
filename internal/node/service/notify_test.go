package service_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/service"
)

// TestNextPulse checks the time of a pulse after single heartbeats.
func TestNextPulse(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name     string
		fed      time.Duration // before the last heartbeat
		resync   time.Duration // after it; 0: no resync is known
		watchdog time.Duration
		at       time.Duration
		resyncs  bool // the resync makes a pulse needless
	}{
		{name: "the unit's watchdog and the default period", resync: 30 * time.Second, watchdog: 2 * time.Minute, at: 45 * time.Second, resyncs: true},
		{name: "without a watchdog", resync: 30 * time.Second, at: 45 * time.Second, resyncs: true},
		{name: "without a resync", at: 45 * time.Second},
		{name: "a resync that was due", resync: -time.Second, at: 45 * time.Second},
		{name: "a long period", resync: time.Hour, watchdog: 2 * time.Minute, at: 45 * time.Second},
		{name: "a short watchdog", resync: 30 * time.Second, watchdog: 12 * time.Second, at: 6 * time.Second},
		{name: "fed before", fed: 2 * time.Second, resync: 30 * time.Second, watchdog: 12 * time.Second, at: 4 * time.Second},
		{name: "hungry at the resync", fed: 35 * time.Second, resync: 30 * time.Second, watchdog: 2 * time.Minute, at: 25 * time.Second},
		{name: "a long watchdog", resync: time.Minute, watchdog: time.Hour, at: 45 * time.Second},
		{name: "a short period", resync: time.Second, watchdog: 4 * time.Second, at: 2 * time.Second, resyncs: true},
	} {
		resync := time.Time{}
		if c.resync != 0 {
			resync = start.Add(c.resync)
		}
		at, needed := service.NextPulse(start, start.Add(-c.fed), resync, c.watchdog)
		if at.Sub(start) != c.at || needed == c.resyncs {
			t.Errorf("%s: %v, %t; want %v, %t", c.name, at.Sub(start), needed, c.at, !c.resyncs)
		}
	}
}

// TestPulse checks that an idle event loop records heartbeats and feeds the watchdog often
// enough, with any configuration. Where the resync suffices, there is no other wake-up.
func TestPulse(t *testing.T) {
	for _, c := range []struct {
		period, watchdog time.Duration
		answer           time.Duration // duration of a listing
		pulses           int           // maximum in an hour
	}{
		{30 * time.Second, 2 * time.Minute, 0, 0},
		{30 * time.Second, 2 * time.Minute, 100 * time.Millisecond, 0},
		{30 * time.Second, 0, 10 * time.Second, 0},
		{30 * time.Second, 90 * time.Second, 0, 0},
		{time.Second, 2 * time.Minute, 0, 0},
		{time.Second, 4 * time.Second, 0, 0},
		{30 * time.Second, 2 * time.Minute, 2 * time.Minute, 100}, // the runtime hangs
		{time.Minute, 2 * time.Minute, 0, 60},
		{time.Hour, 2 * time.Minute, 0, 80},
		{time.Hour, 0, 0, 80},
		{30 * time.Second, 12 * time.Second, 0, 600},
		{time.Hour, time.Second, 0, 7200},
	} {
		t.Run(fmt.Sprintf("%v-%v-%v", c.period, c.watchdog, c.answer), func(t *testing.T) {
			t.Setenv("WATCHDOG_USEC", fmt.Sprint(c.watchdog.Microseconds()))
			if c.watchdog == 0 {
				t.Setenv("WATCHDOG_USEC", "")
			}
			synctest.Test(t, func(t *testing.T) { idleFor(t, time.Hour, c.period, c.watchdog, c.answer, c.pulses) })
		})
	}
}

// idleFor runs the timers of an idle event loop.
func idleFor(t *testing.T, d, period, watchdog, listing time.Duration, mostPulses int) {
	n, err := service.NewNotifier(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	n.Alive(time.Now())
	var due time.Time // of the resync
	answer, end := time.NewTimer(listing), time.After(d)
	resync, pulse := time.NewTimer(2*d), time.NewTimer(2*d)
	pulses := 0
	for over := false; !over; {
		if at := n.Pulse(due); !at.IsZero() {
			pulse.Reset(time.Until(at))
		} else {
			pulse.Stop()
		}
		select {
		case <-end:
			over = true
		case <-answer.C:
			due = time.Now().Add(period)
			resync.Reset(period)
		case <-resync.C:
			answer.Reset(listing)
		case <-pulse.C:
			pulses++
		}
		if silent := time.Since(n.Heartbeat()); silent > n.MaxSilence()/2 {
			t.Errorf("silent for %v", silent)
		}
		n.Alive(time.Now())
		if hungry := time.Since(n.Fed()); watchdog > 0 && hungry > watchdog/2 {
			t.Errorf("watchdog not fed for %v", hungry)
		}
	}
	if pulses > mostPulses {
		t.Errorf("%d pulses, want at most %d", pulses, mostPulses)
	}
}
