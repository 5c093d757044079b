package viewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// maxStatus bounds a status in bytes: that of 4096 CPUs and 1000 containers has less.
const maxStatus = 16 << 20

// State is what a feed holds at a time.
type State struct {
	// Number rises with each state.
	Number uint64
	Status *inspect.Status // nil before the first
	// Load is how busy each CPU was between this status and the one before, from 0 to 1.
	Load map[int]float64
	// Err is why there is nothing newer; nil while there may be.
	Err error
}

// Feed holds the latest status.
type Feed struct {
	mu      sync.Mutex
	state   State
	changed chan struct{} // closed and replaced when the state changes
}

// NewFeed returns one that holds nothing yet.
func NewFeed() *Feed { return &Feed{changed: make(chan struct{})} }

// Now returns the state, and a channel that is closed when there is another.
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

// Put makes a status the latest one. It must not be changed any more.
func (f *Feed) Put(status *inspect.Status) {
	f.update(func(s *State) { s.Load, s.Status, s.Err = loadBetween(s.Status, status), status, nil })
}

// End says why nothing newer comes.
func (f *Feed) End(err error) { f.update(func(s *State) { s.Err = err }) }

// Follow puts one status after the other, as `cpupoold status -o json --watch` prints
// them, until there are no more; then it returns the error of that, io.EOF for an end
// between two of them, and [Feed.End] is for the caller to say.
func (f *Feed) Follow(r io.Reader) error {
	limited := &io.LimitedReader{R: r, N: maxStatus}
	for d := json.NewDecoder(limited); ; limited.N = maxStatus {
		s, err := decode(d)
		if err != nil {
			if limited.N <= 0 {
				err = fmt.Errorf("a status has more than %d bytes", maxStatus)
			}
			return err
		}
		f.Put(s)
	}
}

// Read returns the one status that there is to be read.
func Read(r io.Reader) (*inspect.Status, error) {
	s, err := decode(json.NewDecoder(io.LimitReader(r, maxStatus)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is empty, or ends too early: it is to be what cpupoold status -o json prints")
	}
	return s, err
}

// decode reads a status and refuses what is none: a document of another version is not
// guessed at.
func decode(d *json.Decoder) (*inspect.Status, error) {
	s := new(inspect.Status)
	if err := d.Decode(s); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("no status: %w; it is to be what cpupoold status -o json prints", err)
	}
	if s.Version != inspect.Version {
		return nil, fmt.Errorf("a document of version %d; this program knows version %d of what cpupoold status -o json prints", s.Version, inspect.Version)
	}
	if len(s.CPUs) == 0 {
		return nil, errors.New("it tells of no CPUs: it is to be what cpupoold status -o json prints")
	}
	seen := make(map[int]bool, len(s.CPUs))
	for _, c := range s.CPUs {
		if c.ID < 0 || c.ID >= cpuset.MaxCPUs || seen[c.ID] {
			return nil, fmt.Errorf("CPU %d is there twice, or is none: CPUs have numbers from 0 to %d", c.ID, cpuset.MaxCPUs-1)
		}
		seen[c.ID] = true
	}
	return s, nil
}

// loadBetween is how busy CPUs were between two states of the same daemon.
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

// FollowFile puts the status that read returns, and again whenever it is another, until
// the context ends. What cannot be read then is told, and the state before it stays.
func (f *Feed) FollowFile(ctx context.Context, read func() (*inspect.Status, error), every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s, err := read()
		now, _ := f.Now()
		switch {
		case err != nil && (now.Err == nil || now.Err.Error() != err.Error()):
			f.End(err)
		case err == nil && (now.Err != nil || !reflect.DeepEqual(now.Status, s)):
			f.Put(s)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
