// Package history holds the daemon's decisions, writes and findings in the order of their events.
//
// A [Log] is a bounded list that one goroutine appends to. Others read its snapshots. It is in
// memory only, and starts with the daemon.
package history

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a log: about a day of a busy node, in a small part of its memory.
const (
	MaxEvents = 4096
	MaxBytes  = 2 << 20
	// maxText is the maximum length of a text in an event, in bytes.
	maxText = 1024
	// fixedSize is the approximate size of an event without its texts, in bytes.
	fixedSize = 256
)

// Log is a list of the latest events. It is not safe for concurrent use; its snapshots are.
type Log struct {
	events   []Event // the kept ones start at first
	first    int
	bytes    int // size of the kept events
	last     uint64
	changed  chan struct{}
	snapshot *Snapshot
	dropped  uint64

	maxEvents, maxBytes int
}

// New returns an empty log with the bounds MaxEvents and MaxBytes.
func New() *Log { return newLog(MaxEvents, MaxBytes) }

func newLog(events, bytes int) *Log {
	l := &Log{maxEvents: events, maxBytes: bytes, changed: make(chan struct{})}
	l.snapshot = l.newSnapshot()
	return l
}

// Add appends an event and sets its Seq. It drops the oldest events beyond the bounds. Existing
// snapshots do not change.
func (l *Log) Add(e Event) {
	l.last++
	e.Seq = l.last
	for _, s := range e.texts() {
		*s = shorten(*s)
	}
	if len(l.events) == cap(l.events) && l.first > 0 {
		// A new array, because snapshots still use the old one.
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
	n := fixedSize
	for _, s := range e.texts() {
		n += len(*s)
	}
	return n
}

// shorten cuts a text to maxText bytes, at the boundary of a character.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	n := maxText - len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]) + "…"
}

// Snapshot returns the kept events. It returns the same snapshot until the next Add. A new
// snapshot closes Changed of the previous one.
func (l *Log) Snapshot() *Snapshot {
	if l.snapshot == nil {
		close(l.changed)
		l.changed = make(chan struct{})
		l.snapshot = l.newSnapshot()
	}
	return l.snapshot
}

func (l *Log) newSnapshot() *Snapshot {
	end := len(l.events)
	return &Snapshot{Events: l.events[l.first:end:end], Dropped: l.dropped, Changed: l.changed}
}

// Snapshot holds the events of a log at one moment. It is immutable.
type Snapshot struct {
	// Events are sorted by Seq, without gaps.
	Events []Event
	// Dropped is the number of events that the log has dropped.
	Dropped uint64
	// Changed is closed when a newer snapshot exists.
	Changed <-chan struct{}
}

// Last returns the Seq of the last event, or 0 if no event exists.
func (s *Snapshot) Last() uint64 {
	if n := len(s.Events); n > 0 {
		return s.Events[n-1].Seq
	}
	return 0
}

// Query selects events. The zero value selects all of them.
type Query struct {
	// After excludes events up to this Seq.
	After uint64
	// Since excludes events before this time.
	Since time.Time
	// About is a name for Event.About; empty selects all events.
	About string
	// Kinds holds the selected kinds; empty selects all kinds.
	Kinds []Kind
	// Limit is the maximum number of events, the latest ones; 0 is no limit.
	Limit int
}

// Select returns the events that match q, the oldest first.
func (s *Snapshot) Select(q Query) []Event {
	var found []Event
	for i := len(s.Events) - 1; i >= 0 && s.Events[i].Seq > q.After; i-- {
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

// Kind is a kind of event.
type Kind string

// Kinds of events. Users filter by these names, so they are stable.
const (
	// Started: the daemon has started.
	Started Kind = "started"
	// Ready: the writes of the first placements are complete. Refused writes do not delay it.
	Ready Kind = "ready"
	// Placed: a container or unit has a new placement; Value holds its CPUs.
	Placed Kind = "placed"
	// Ended: a container with a placement is gone, or a unit left the configuration.
	Ended Kind = "ended"
	// Wrote: a value was written. Failed: a write was refused; Error is the reason.
	Wrote  Kind = "wrote"
	Failed Kind = "failed"
	// Missed: the target of a write was gone, as happens when containers end.
	Missed Kind = "missed"
	// Drift: another process changed a value; Value is the new one. Repaired: it is in the
	// desired state again; Cause is the presumed author.
	Drift    Kind = "drift"
	Repaired Kind = "repaired"
	// Problem: a problem starts. Over: it ends. Code names it.
	Problem Kind = "problem"
	Over    Kind = "over"
	// Fault: a cgroup is not in the desired state. Cleared: it is in it again.
	Fault   Kind = "fault"
	Cleared Kind = "mended"
	// Move: an operator requested other CPUs for an owner; Value holds them.
	Move Kind = "move"
	// Claim: a ResourceClaim has new CPUs or other containers; Value holds the CPUs. Without Value, the claim has
	// ended.
	Claim Kind = "claim"
	// Config: a new configuration is in use, or was rejected; then Error is the reason.
	Config Kind = "config"
	// CPUs: CPUs went online or offline; Value holds the online CPUs.
	CPUs Kind = "cpus"
	// Source: a source of events changed its state. Property is its name, Value the state.
	Source Kind = "source"
)

// Event is one event. Fields that do not apply to its kind are empty.
type Event struct {
	// Seq counts the events of one daemon, from 1.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	Kind Kind      `json:"kind"`
	// Pod is namespace/name, PodUID its UID. Container is the name of the container, Unit the
	// name of the unit. All are empty for events about the node.
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Claim     string `json:"claim,omitempty"` // namespace/name of a ResourceClaim
	// Cgroup is a path below the cgroup root.
	Cgroup string `json:"cgroup,omitempty"`
	// Via is the way of a write: file, cri, dbus or nri. Property is the property that was
	// written or decided, and Value the new value.
	Via      string `json:"via,omitempty"`
	Property string `json:"property,omitempty"`
	Value    string `json:"value,omitempty"`
	// Before is the previous value, if known.
	Before string `json:"before,omitempty"`
	// Pool is the pool of a placement. For a management pool, /TYPE follows.
	Pool string `json:"pool,omitempty"`
	// Code is the stable name of the cause, Cause its text.
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`
	// Error is the reason of a failure.
	Error string `json:"error,omitempty"`
}

// texts returns the strings of the event, which Add cuts.
func (e *Event) texts() []*string {
	return []*string{&e.Pod, &e.PodUID, &e.Container, &e.Unit, &e.Claim, &e.Cgroup, &e.Via, &e.Property, &e.Value, &e.Before, &e.Pool, &e.Code, &e.Cause, &e.Error}
}

// About reports whether name matches the event: a pod (name, namespace/name or UID), a container
// of it (pod/container), a unit, or a claim (namespace/name).
func (e *Event) About(name string) bool {
	if name == "" {
		return false
	}
	if e.Unit == name || e.Claim == name || e.isPodName(name) {
		return true
	}
	i := strings.LastIndexByte(name, '/')
	return i > 0 && e.Container != "" && e.Container == name[i+1:] && e.isPodName(name[:i])
}

func (e *Event) isPodName(name string) bool {
	if e.Pod == "" {
		return e.PodUID != "" && e.PodUID == name
	}
	_, short, _ := strings.Cut(e.Pod, "/")
	return name == e.Pod || name == e.PodUID || name == short
}
