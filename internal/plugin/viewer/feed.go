package viewer

import (
	"io"
	"sync"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// State is the content of a feed at a time.
type State struct {
	// Number rises with each state.
	Number uint64
	Status *inspect.Status // nil before the first
	// Notes and Subjects belong to the document.
	Notes    []string
	Subjects []inspect.Subject
	// Load is how busy each CPU was between this status and the previous one, from 0 to 1.
	Load map[int]float64
	// Err is the reason why the status is the last one; nil while others can follow.
	Err error
}

func (s *State) problems() int { return len(s.Status.Problems) + len(s.Status.Faults) }

// Feed holds the latest state of a node.
type Feed struct {
	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced when the state changes
}

// NewFeed returns a feed without a status.
func NewFeed() *Feed { return &Feed{changed: make(chan struct{})} }

// Now returns the state, and a channel that is closed when there is another state.
func (f *Feed) Now() (State, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state, f.changed
}

func (f *Feed) update(change func(s *State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
	f.state.Number++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Put makes a status the latest one. It must not change later.
func (f *Feed) Put(status *inspect.Status) { f.put(&Document{Status: *status}) }

func (f *Feed) put(d *Document) {
	f.update(func(s *State) {
		s.Load, s.Status, s.Err = loadBetween(s.Status, &d.Status), &d.Status, nil
		s.Notes, s.Subjects = d.Notes, d.Subjects
	})
}

// End sets the reason why no other status comes.
func (f *Feed) End(err error) { f.update(func(s *State) { s.Err = err }) }

// Follow puts each status that `cpupoold status -o json --watch` prints, until the stream
// ends or a status cannot be read. It returns the reason, io.EOF for an end between two
// statuses. It does not call [Feed.End].
func (f *Feed) Follow(r io.Reader) error {
	return follow(r, maxStatus, func(all []Document) { f.put(&all[0]) })
}

// loadBetween returns how busy CPUs were between two states of the same daemon.
func loadBetween(a, b *inspect.Status) map[int]float64 {
	if a == nil || !a.Daemon.Started.Equal(b.Daemon.Started) {
		return nil
	}
	passed := b.Time.Sub(a.Time).Seconds()
	if passed <= 0 {
		return nil
	}
	before := make(map[int]float64, len(a.CPUs))
	for _, c := range a.CPUs {
		if c.Busy > 0 {
			before[c.ID] = c.Busy
		}
	}
	load := make(map[int]float64, len(b.CPUs))
	for _, c := range b.CPUs {
		if was, known := before[c.ID]; known && c.Busy >= was {
			load[c.ID] = min((c.Busy-was)/passed, 1)
		}
	}
	return load
}
