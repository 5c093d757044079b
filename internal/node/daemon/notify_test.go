package daemon

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

func TestNextPulse(t *testing.T) {
	start := time.Now()
	for _, c := range []struct {
		name          string
		fed           time.Duration // before the owner was alive
		resync        time.Duration // after it was; 0: none is to come
		watchdog      time.Duration
		at            time.Duration
		resyncInstead bool
	}{
		{name: "the unit's watchdog and the default period", resync: 30 * time.Second, watchdog: 2 * time.Minute, at: 45 * time.Second, resyncInstead: true},
		{name: "without a watchdog", resync: 30 * time.Second, at: 45 * time.Second, resyncInstead: true},
		{name: "without a resync", at: 45 * time.Second},
		{name: "a resync that was due", resync: -time.Second, at: 45 * time.Second},
		{name: "a long period", resync: time.Hour, watchdog: 2 * time.Minute, at: 45 * time.Second},
		{name: "a short watchdog", resync: 30 * time.Second, watchdog: 12 * time.Second, at: 6 * time.Second},
		{name: "fed before", fed: 2 * time.Second, resync: 30 * time.Second, watchdog: 12 * time.Second, at: 4 * time.Second},
		{name: "hungry when it is resynced", fed: 35 * time.Second, resync: 30 * time.Second, watchdog: 2 * time.Minute, at: 25 * time.Second},
		{name: "a long watchdog", resync: time.Minute, watchdog: time.Hour, at: 45 * time.Second},
		{name: "a short period", resync: time.Second, watchdog: 4 * time.Second, at: 2 * time.Second, resyncInstead: true},
	} {
		resync := time.Time{}
		if c.resync != 0 {
			resync = start.Add(c.resync)
		}
		at, ok := hostenv.NextPulse(start, start.Add(-c.fed), resync, c.watchdog)
		if at.Sub(start) != c.at || ok == c.resyncInstead {
			t.Errorf("%s: %v, %t; want %v, %t", c.name, at.Sub(start), ok, c.at, !c.resyncInstead)
		}
	}
}

// TestPulse: whatever is configured, an owner to whom nothing happens is alive and feeds the
// watchdog often enough, and wakes for nothing but the resync where that does.
func TestPulse(t *testing.T) {
	for _, c := range []struct {
		period, watchdog time.Duration
		answer           time.Duration // how long a listing takes
		pulses           int           // in an hour; at most
	}{
		{30 * time.Second, 2 * time.Minute, 0, 0},
		{30 * time.Second, 2 * time.Minute, 100 * time.Millisecond, 0},
		{30 * time.Second, 0, 10 * time.Second, 0},
		{30 * time.Second, 90 * time.Second, 0, 0},
		{time.Second, 2 * time.Minute, 0, 0},
		{time.Second, 4 * time.Second, 0, 0},
		{30 * time.Second, 2 * time.Minute, 2 * time.Minute, 100}, // while the runtime hangs
		{time.Minute, 2 * time.Minute, 0, 60},
		{time.Hour, 2 * time.Minute, 0, 80},
		{time.Hour, 0, 0, 80},
		{30 * time.Second, 12 * time.Second, 0, 600},
		{time.Hour, time.Second, 0, 7200},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := hostenv.Notifier{Log: slog.New(slog.DiscardHandler), Last: new(atomic.Pointer[time.Time]), Watchdog: c.watchdog, Fed: new(time.Time)}
			n.Alive(time.Now())
			l := &Loop{notify: n}
			answer, end := time.NewTimer(c.answer), time.After(time.Hour)
			pulses := 0
			for over := false; !over; {
				l.armPulse()
				next := time.NewTimer(time.Until(l.timers.next()))
				if l.timers.next().IsZero() {
					next.Stop()
				}
				select {
				case <-end:
					over = true
				case <-answer.C: // as when a listing ends
					l.timers.resync.set(time.Now().Add(c.period))
				case now := <-next.C:
					if l.timers.resync.over(now) {
						answer.Reset(c.answer)
					}
					if l.timers.pulse.over(now) {
						pulses++
					}
				}
				if silent := time.Since(n.Heartbeat()); silent > hostenv.MaxSilence/2 {
					t.Errorf("%+v: silent for %v", c, silent)
				}
				n.Alive(time.Now())
				if hungry := time.Since(*n.Fed); c.watchdog > 0 && hungry > c.watchdog/2 {
					t.Errorf("%+v: not fed for %v", c, hungry)
				}
			}
			if pulses > c.pulses {
				t.Errorf("%+v: %d pulses, want at most %d", c, pulses, c.pulses)
			}
		})
	}
}

// TestRest: a daemon at rest waits for nothing but the resync.
func TestRest(t *testing.T) {
	n := newNode(t)
	n.crowd(4)
	n.YAML = strings.Replace(n.YAML, "resyncPeriod: 10m", "resyncPeriod: 30s", 1)
	r := n.start()
	r.quiet()
	r.rests()
	r.Eventually("only the resync is due", func() (alone bool) {
		r.inspect(func(l *Loop) {
			now := time.Now()
			t := &l.timers
			alone = t.resync.due.After(now)
			for _, other := range []deadline{t.pulse, t.retry, t.journal, t.full, t.recheck} {
				alone = alone && !other.due.After(now)
			}
		})
		return alone
	})
}
