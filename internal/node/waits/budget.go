package waits

import (
	"fmt"
	"maps"
	"time"
)

// Timeout is the maximum time from a request of the runtime to the reply. The runtime
// continues without a reply after 2 s (NRI's plugin_request_timeout).
const Timeout = time.Second

const (
	burst = 5 * Timeout / 2
	// debt bounds first waits beyond the budget. Later waits begin when it is repaid.
	debt = burst
	// refillRatio is the time in which the budget grows by one unit. In a minute, waits with a
	// share of the budget use at most 5.5 s: the burst and a twentieth of the minute.
	refillRatio = 20
	// reserve is the part of the budget for keys that have not waited before.
	reserve = Timeout
	// minWait is the shortest granted wait. Most answers take less.
	minWait = 100 * time.Millisecond
	// keyTTL is the time for which the budget remembers a key. A remembered key has used at
	// least minWait. So the budget remembers at most 36,000 keys: the runtime sends one request
	// at a time.
	keyTTL = time.Hour
)

// Budget holds the time that requests may still wait. The zero value is a full budget.
type Budget struct {
	used   time.Duration        // at the time at: between 0 and burst + debt
	at     time.Time            // the last refill
	waited map[string]time.Time // when the last wait of at least minWait ended, by key
	// shortened counts the requests whose wait was over before Timeout.
	shortened uint64
}

// Wait is the time that a reply may wait. The zero value is a wait that has not begun.
type Wait struct {
	key     string
	arrived time.Time // of the request
	granted time.Duration
	begun   bool
}

// Begin grants a wait to a request that cannot be decided yet. Requests of one pod that
// repeat each other have the same key. Begin reports whether the wait is over at now, for
// instance because the budget is used up. A wait that has begun keeps its end, and Begin
// returns false.
func (b *Budget) Begin(w *Wait, key string, arrived, now time.Time) (over bool) {
	if w.begun {
		return false
	}
	b.refill(now)
	left := burst - b.used
	shortest := minWait
	if last, ok := b.waited[key]; ok && now.Sub(last) < keyTTL {
		left -= reserve
		shortest = 0
	}
	granted := min(left, Timeout)
	if granted < minWait {
		granted = shortest
	}
	b.used += granted
	*w = Wait{key, arrived, granted, true}
	return w.IsOver(now)
}

// End charges the time from the arrival of the request to now, and returns the rest of the
// granted time to the budget. A time of less than minWait costs nothing. End must follow each
// Begin, and does nothing without one.
func (b *Budget) End(w *Wait, now time.Time) {
	if !w.begun {
		return
	}
	b.refill(now)
	used := now.Sub(w.arrived)
	charged := used
	if used < minWait {
		charged = 0
	}
	limit := max(burst, min(b.used, burst+debt)) // a late decision makes no debt
	b.used = min(max(b.used+charged-w.granted, 0), limit)
	if min(used, w.granted) >= minWait {
		maps.DeleteFunc(b.waited, func(_ string, last time.Time) bool { return now.Sub(last) >= keyTTL })
		if b.waited == nil {
			b.waited = make(map[string]time.Time)
		}
		b.waited[w.key] = now
	}
	if w.granted < Timeout && w.IsOver(now) {
		b.shortened++
	}
	*w = Wait{}
}

// ShortenedWaits counts the requests that were decided after less than Timeout.
func (b *Budget) ShortenedWaits() uint64 { return b.shortened }

// refill adds the time since the last refill. A clock that goes back adds nothing.
func (b *Budget) refill(now time.Time) {
	if since := now.Sub(b.at); since > 0 {
		b.used = max(b.used-since/refillRatio, 0)
		b.at = now
	}
}

// Until returns the end of a wait, or the zero time before Begin.
func (w *Wait) Until() time.Time {
	if !w.begun {
		return time.Time{}
	}
	return w.arrived.Add(w.granted)
}

// IsOver reports whether a wait has begun and is over at now.
func (w *Wait) IsOver(now time.Time) bool { return w.begun && !now.Before(w.Until()) }

// Shortened returns the end of an error text after a wait shorter than Timeout, or "".
func (w *Wait) Shortened() string {
	if !w.begun || w.granted == Timeout {
		return ""
	}
	return fmt.Sprintf("; the daemon waited %v instead of %v, because earlier waits have used its time for waiting", w.granted.Truncate(minWait), Timeout)
}
