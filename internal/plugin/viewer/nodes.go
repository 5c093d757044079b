package viewer

import (
	"context"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"
)

// Nodes are the nodes that a [Server] shows.
type Nodes interface {
	// List returns the nodes, sorted by name.
	List() []Listed
	// Feed returns the feed of a node, or of the first one for the name "". It is nil for an
	// unknown node.
	Feed(name string) *Feed
}

// Listed is a node in the list of a page.
type Listed struct {
	Name string `json:"name"`
	// Problems is the number of problems and faults; nil before the first status.
	Problems *int `json:"problems,omitempty"`
}

// ListedAs returns the node of a feed for a list.
func ListedAs(name string, f *Feed) Listed {
	l := Listed{Name: name}
	if state, _ := f.Now(); state.Status != nil {
		l.Problems = new(len(state.Status.Problems) + len(state.Status.Faults))
	}
	return l
}

// Set is the [Nodes] of documents.
type Set struct {
	only      []string // names of the nodes to show; empty for all
	mu        sync.Mutex
	feeds     map[string]*Feed
	waiting   *Feed // of the first document, until it comes
	simulated bool
}

// NewSet returns a set that takes the documents of the named nodes, or of all nodes without
// a name.
func NewSet(only ...string) *Set {
	return &Set{only: only, feeds: make(map[string]*Feed), waiting: NewFeed()}
}

// List implements [Nodes].
func (s *Set) List() []Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Listed, 0, len(s.feeds))
	for _, name := range slices.Sorted(maps.Keys(s.feeds)) {
		all = append(all, ListedAs(name, s.feeds[name]))
	}
	return all
}

// Feed implements [Nodes].
func (s *Set) Feed(name string) *Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[name]; f != nil || name != "" {
		return f
	}
	if len(s.feeds) == 0 {
		return s.waiting
	}
	return s.feeds[slices.Min(slices.Collect(maps.Keys(s.feeds)))]
}

// put sets the documents of nodes. With all, other nodes are removed. A document that is the
// same as before changes nothing.
func (s *Set) put(documents []Document, all bool) {
	if len(s.only) > 0 {
		documents = slices.DeleteFunc(documents, func(d Document) bool { return !slices.Contains(s.only, d.Node) })
	}
	byName := func(a, b Document) int { return strings.Compare(a.Node, b.Node) }
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.feeds
	if all {
		s.feeds = make(map[string]*Feed, len(documents))
	}
	for i := range documents {
		d := &documents[i]
		s.simulated = d.Daemon.Mode == "" // no daemon has made the document
		f := old[d.Node]
		switch {
		case f != nil:
		case len(old) == 0 && d.Node == slices.MinFunc(documents, byName).Node:
			f = s.waiting
		default:
			f = NewFeed()
		}
		s.feeds[d.Node] = f
		now, _ := f.Now()
		if now.Err != nil || now.Status == nil || !reflect.DeepEqual(now.Status, &d.Status) || !slices.Equal(now.Notes, d.Notes) || !reflect.DeepEqual(now.Subjects, d.Subjects) {
			f.put(d)
		}
	}
}

// End sets the reason why no other documents come. A simulation is complete without others.
func (s *Set) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.feeds) == 0 {
		s.waiting.End(err)
	}
	for _, f := range s.feeds {
		f.End(err)
	}
}

// Follow puts each document of a stream, until the stream ends or a document cannot be read.
// It returns the reason: nil for the end of a stream whose last document is a simulation,
// io.EOF for another end between two documents.
func (s *Set) Follow(r io.Reader) error {
	err := follow(r, maxNodes, func(all []Document) { s.put(all, len(all) > 1) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == io.EOF && s.simulated && len(s.feeds) > 0 { //nolint:errorlint // follow returns io.EOF itself
		return nil
	}
	return err
}

// FollowFile puts the documents that read returns, and calls it again after each period,
// until the context ends. Without documents and error, nothing changes. An error of read is
// the end of all nodes until the next success.
func (s *Set) FollowFile(ctx context.Context, read func() ([]Document, error), every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := ""
	for {
		all, err := read()
		switch {
		case err == nil && len(all) > 0:
			s.put(all, true)
			last = ""
		case err == nil:
		case err.Error() != last:
			s.End(err)
			last = err.Error()
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
