package control

import (
	"net"
	"sync"
)

// atMost accepts no more than n connections at once. Others wait in the kernel's queue.
func atMost(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a connection, and before for one of those before it to end.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &counted{Conn: c, end: sync.OnceFunc(func() { <-l.slots })}, nil
}

// Close ends Accept.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// counted is a connection that gives its slot back.
type counted struct {
	net.Conn
	end func()
}

// Close gives the slot back.
func (c *counted) Close() error {
	err := c.Conn.Close()
	c.end()
	return err
}
