package actor

import (
	"sync"
)

// Mailbox is the owner's unbounded queue of events. Nobody who posts ever
// waits: a source that had to wait for the owner could hold up the runtime
// (containerd blocks container starts on a slow event reader).
type Mailbox struct {
	Wake chan struct{} // holds one token while items is not empty

	Mu    sync.Mutex // guards items
	Items []Event
}

func NewMailbox() *Mailbox {
	return &Mailbox{Wake: make(chan struct{}, 1)}
}

func (m *Mailbox) Post(e Event) {
	m.Mu.Lock()
	m.Items = append(m.Items, e)
	m.Mu.Unlock()
	select {
	case m.Wake <- struct{}{}:
	default:
	}
}

func (m *Mailbox) Take() []Event {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	items := m.Items
	m.Items = nil
	return items
}
