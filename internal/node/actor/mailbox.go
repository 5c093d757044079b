package actor

import "sync"

// Mailbox is an unbounded queue of events with one reader. Post never waits: a source
// that waited for the loop could delay the runtime, because containerd blocks container
// starts on a slow reader of its events.
type Mailbox[E any] struct {
	wake chan struct{} // holds one token while items is not empty

	mu    sync.Mutex // guards items
	items []E
}

// NewMailbox returns an empty mailbox.
func NewMailbox[E any]() *Mailbox[E] {
	return &Mailbox[E]{wake: make(chan struct{}, 1)}
}

// Wake returns a channel that delivers a value after events were posted.
func (m *Mailbox[E]) Wake() <-chan struct{} { return m.wake }

// Post appends an event.
func (m *Mailbox[E]) Post(e E) {
	m.mu.Lock()
	m.items = append(m.items, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Take removes and returns all events, oldest first.
func (m *Mailbox[E]) Take() []E {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
