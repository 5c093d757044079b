package history

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of what is kept: about a day of a busy node, and no more memory than a node
// can spare.
const (
	MaxEvents = 4096
	MaxBytes  = 2 << 20
	// maxText bounds each text of an event, in bytes.
	maxText = 1024
	// fixed is about what an event takes beside its texts.
	fixed = 256
)

// Log is a list of the latest events. It belongs to one goroutine.
type Log struct {
	events   []Event // of which those from first on are kept
	first    int
	bytes    int // of those that are kept
	last     uint64
	changed  chan struct{}
	snapshot *Snapshot
	dropped  uint64

	maxEvents, maxBytes int
}

// New returns an empty log with the bounds MaxEvents and MaxBytes.
func New() *Log { return bounded(MaxEvents, MaxBytes) }

func bounded(events, bytes int) *Log {
	l := &Log{maxEvents: events, maxBytes: bytes, changed: make(chan struct{})}
	l.snapshot = l.take()
	return l
}

// Add appends an event, whose Seq it sets, and forgets the oldest that are too many.
// Events that are in a snapshot are not changed.
func (l *Log) Add(e Event) {
	l.last++
	e.Seq = l.last
	for _, s := range e.texts() {
		*s = cut(*s)
	}
	if len(l.events) == cap(l.events) && l.first > 0 {
		// Who has a snapshot keeps the old array.
		l.events = append(make([]Event, 0, 2*max(len(l.events)-l.first, 64)), l.events[l.first:]...)
		l.first = 0
	}
	l.events = append(l.events, e)
	l.bytes += e.size()
	for len(l.events)-l.first > l.maxEvents || l.bytes > l.maxBytes && len(l.events)-l.first > 1 {
		l.bytes -= l.events[l.first].size()
		l.first++
		l.dropped++
	}
	l.snapshot = nil
}

func (e *Event) size() int {
	n := fixed
	for _, s := range e.texts() {
		n += len(*s)
	}
	return n
}

// cut shortens a text to maxText bytes, and not within a letter.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}

// Snapshot returns what is kept. It is the same until an event is added. The one before
// it is told that it is not the last any more.
func (l *Log) Snapshot() *Snapshot {
	if l.snapshot == nil {
		close(l.changed)
		l.changed = make(chan struct{})
		l.snapshot = l.take()
	}
	return l.snapshot
}

func (l *Log) take() *Snapshot {
	end := len(l.events)
	return &Snapshot{Events: l.events[l.first:end:end], Dropped: l.dropped, Changed: l.changed}
}

// Snapshot is what was kept at one moment. It is not changed.
type Snapshot struct {
	// Events are sorted by Seq, without a gap.
	Events []Event
	// Dropped counts those that were kept once.
	Dropped uint64
	// Changed is closed when there is a newer snapshot.
	Changed <-chan struct{}
}

// Last is the Seq of the last event; 0 before the first.
func (s *Snapshot) Last() uint64 {
	if n := len(s.Events); n > 0 {
		return s.Events[n-1].Seq
	}
	return 0
}

// Query says which events are asked for. The zero value asks for all.
type Query struct {
	// After is the Seq that events must be above.
	After uint64
	// Since is the time that events must not be before.
	Since time.Time
	// About is a pod, container or unit, as for Event.About; empty for all.
	About string
	// Kinds are those asked for; none for all.
	Kinds []Kind
	// Limit is how many of the latest are asked for; 0 for all.
	Limit int
}

// Select returns the events that q asks for, the oldest first.
func (s *Snapshot) Select(q Query) []Event {
	from, _ := slices.BinarySearchFunc(s.Events, q.After, func(e Event, after uint64) int {
		if e.Seq <= after {
			return -1
		}
		return 1
	})
	var found []Event
	for i := len(s.Events) - 1; i >= from; i-- {
		e := &s.Events[i]
		if e.Time.Before(q.Since) || q.About != "" && !e.About(q.About) || len(q.Kinds) > 0 && !slices.Contains(q.Kinds, e.Kind) {
			continue
		}
		found = append(found, *e)
		if len(found) == q.Limit {
			break
		}
	}
	slices.Reverse(found)
	return found
}
