package viewer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Sizes of documents in bytes. A status of 4096 CPUs and 1000 containers is below maxStatus.
// A simulation can hold the nodes of a cluster.
const (
	maxStatus = 16 << 20
	maxNodes  = 512 << 20
)

// Document is the state of a node: the status of a daemon, or a simulation.
type Document struct {
	inspect.Status
	// Notes state the assumptions of a simulation.
	Notes []string `json:"notes,omitempty"`
	// Subjects are the explanations that a simulation holds.
	Subjects []inspect.Subject `json:"subjects,omitempty"`
}

type documents struct {
	Document
	Nodes []Document `json:"nodes"`
}

// Read reads the status of one node. It does not check whether anything follows.
func Read(r io.Reader) (*inspect.Status, error) {
	all, err := read(r, maxStatus)
	switch {
	case err != nil:
		return nil, err
	case len(all) > 1:
		return nil, fmt.Errorf("the document has %d nodes; choose one with --node", len(all))
	}
	return &all[0].Status, nil
}

// ReadAll reads the document of one node, or of several nodes.
func ReadAll(r io.Reader) ([]Document, error) { return read(r, maxNodes) }

func read(r io.Reader, most int64) ([]Document, error) {
	all, err := decode(json.NewDecoder(io.LimitReader(r, most)))
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it is empty, or ends too early; write the output of cpupoold status -o json or kubectl cpupool simulate -o json into it")
	}
	return all, err
}

// follow calls put with each document of a stream, until the stream ends or a document cannot
// be read. It returns the reason, io.EOF for an end between two documents.
func follow(r io.Reader, most int64, put func([]Document)) error {
	limited := &io.LimitedReader{R: r, N: most}
	for d := json.NewDecoder(limited); ; limited.N = most {
		all, err := decode(d)
		if err != nil {
			if limited.N <= 0 {
				err = fmt.Errorf("a document has more than %d bytes", most)
			}
			return err
		}
		put(all)
	}
}

// decode reads the next document. It refuses other documents, and other versions.
func decode(d *json.Decoder) ([]Document, error) {
	var in documents
	if err := d.Decode(&in); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("no status: %w; want the output of cpupoold status -o json or kubectl cpupool simulate -o json", err)
	}
	if in.Version != inspect.Version {
		return nil, fmt.Errorf("a document of version %d; this program knows version %d of cpupoold status -o json and kubectl cpupool simulate -o json", in.Version, inspect.Version)
	}
	all := in.Nodes
	if len(all) == 0 {
		all = []Document{in.Document}
	}
	names := make(map[string]bool, len(all))
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, err
		}
		if names[all[i].Node] {
			return nil, fmt.Errorf("node %q occurs twice", all[i].Node)
		}
		names[all[i].Node] = true
	}
	return all, nil
}

// check refuses a document that cannot be drawn.
func (d *Document) check() error {
	if len(d.CPUs) == 0 {
		return errors.New("there are no CPUs in it; want the output of cpupoold status -o json or kubectl cpupool simulate -o json")
	}
	seen := make(map[int]bool, len(d.CPUs))
	for _, c := range d.CPUs {
		if c.ID < 0 || c.ID >= cpuset.MaxCPUs || seen[c.ID] {
			return fmt.Errorf("CPU %d occurs twice, or is none: CPUs have numbers from 0 to %d", c.ID, cpuset.MaxCPUs-1)
		}
		seen[c.ID] = true
	}
	return nil
}

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
