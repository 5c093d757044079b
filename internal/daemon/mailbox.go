package daemon

import "sync"

// mailbox is the owner's unbounded queue of events. Nobody who posts ever
// waits: a source that had to wait for the owner could hold up the runtime
// (containerd blocks container starts on a slow event reader).
type mailbox struct {
	wake chan struct{} // holds one token while items is not empty

	mu    sync.Mutex // guards items
	items []event
}

func newMailbox() *mailbox {
	return &mailbox{wake: make(chan struct{}, 1)}
}

func (m *mailbox) post(e event) {
	m.mu.Lock()
	m.items = append(m.items, e)
	m.mu.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *mailbox) take() []event {
	m.mu.Lock()
	defer m.mu.Unlock()
	items := m.items
	m.items = nil
	return items
}
