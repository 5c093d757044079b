package daemon

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// clock is the clock of a node's daemons: the time that the machine has given to the test,
// and the time that the test has skipped. It stands still while a busy machine runs other
// processes, because the daemon then reaches its limits without a cause on the node. It is
// safe for concurrent use.
type clock struct {
	skipped atomic.Int64

	mu    sync.Mutex    // guards the fields below
	read  time.Time     // real time of the last reading; zero: never read
	stood time.Duration // how long the clock has stood still
}

const (
	clockTick   = 10 * time.Millisecond // interval of readings while a daemon runs
	clockMaxGap = 5 * clockTick         // the clock stands still for the rest of a longer interval
)

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if !c.read.IsZero() {
		c.stood += max(now.Sub(c.read)-clockMaxGap, 0)
	}
	c.read = now
	return now.Add(time.Duration(c.skipped.Load()) - c.stood)
}

// run reads the clock until ctx ends, so that it moves while the daemon waits.
func (c *clock) run(ctx context.Context) {
	tick := time.NewTicker(clockTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.now()
		}
	}
}

// skip moves the loop's clock by d. The loop acts at each deadline on the way.
func (r *running) skip(d time.Duration) {
	for end := r.clock.now().Add(d); d > 0; d = end.Sub(r.clock.now()) {
		wait := r.wait()
		r.clock.skipped.Add(int64(max(min(wait, d), 0)))
	}
	r.wait() // lets the loop set its timer by the new time
}

// wait returns the time until the loop's next deadline: an hour if none is set.
func (r *running) wait() (d time.Duration) {
	r.inspectOnly(func(l *Loop) {
		if d = time.Hour; !l.schedule.next().IsZero() {
			d = l.schedule.next().Sub(l.now())
		}
	})
	return d
}

// within waits until cond holds. While no job runs, it skips the time to the loop's next
// deadline, at most limit in all. A later deadline does not help: the test waits in real
// time then, and times out.
func (r *running) within(limit time.Duration, what string, cond func() bool) {
	r.T.Helper()
	r.Eventually(what, func() bool {
		if cond() {
			return true
		}
		if r.jobs.idle() {
			if d := r.wait(); d > 0 && d <= limit {
				limit -= d
				r.clock.skipped.Add(int64(d))
				r.wait() // lets the loop set its timer by the new time
			}
		}
		return false
	})
}

// skipPersistPause skips the pause before the daemon persists a value again that another
// process has overwritten: five seconds, in steps from deadline to deadline.
func (r *running) skipPersistPause() {
	var pauses bool
	r.inspectOnly(func(l *Loop) { pauses = l.backoffs.AnyWaiting(l.now()) })
	if pauses && r.jobs.idle() {
		r.skip(max(r.wait(), 0))
	}
}

// viewWithin is within for a condition of the view.
func (r *running) viewWithin(limit time.Duration, what string, cond func(*telemetry.View) bool) {
	r.T.Helper()
	r.within(limit, what, func() bool {
		v := r.loop.publisher.Metrics()
		return v != nil && cond(v)
	})
}

// skipDuring runs do, which waits for the loop, and skips at most limit until do returns. It
// returns how long do has taken by the loop's clock.
func (r *running) skipDuring(limit time.Duration, what string, do func()) time.Duration {
	r.T.Helper()
	began := r.clock.now()
	var ended atomic.Pointer[time.Time]
	go func() {
		defer func() {
			now := r.clock.now()
			ended.Store(&now)
		}()
		do()
	}()
	r.within(limit, what, func() bool { return ended.Load() != nil })
	return ended.Load().Sub(began)
}
