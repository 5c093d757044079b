// Package qmp speaks the QEMU Machine Protocol over a connection to one QEMU.
//
// https://www.qemu.org/docs/master/interop/qmp-spec.html
package qmp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Event is an event that QEMU reports, such as MIGRATION or SHUTDOWN.
type Event struct {
	Name string          `json:"event"`
	Data json.RawMessage `json:"data"`
}

// Error is QEMU's refusal of a command.
type Error struct {
	Command string `json:"-"`
	Class   string `json:"class"`
	Desc    string `json:"desc"`
}

func (e *Error) Error() string { return fmt.Sprintf("qmp %s: %s (%s)", e.Command, e.Desc, e.Class) }

// Client executes commands, any number of them at the same time.
type Client struct {
	conn    net.Conn
	onEvent func(Event)
	done    chan struct{} // closed when the connection has ended

	mu      sync.Mutex // guards the following fields, and writes to conn
	nextID  uint64
	pending map[uint64]chan message
	err     error // why the connection ended
}

// message is the union of QEMU's messages: a greeting, the answer to a command, an event.
type message struct {
	QMP    json.RawMessage `json:"QMP"`
	ID     uint64          `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`
	Event
}

// New greets the QEMU at the other end of conn and owns conn from then on. It calls onEvent for each event, in order, from one
// goroutine, which reads nothing else until onEvent returns.
func New(ctx context.Context, conn net.Conn, onEvent func(Event)) (*Client, error) {
	c := &Client{conn: conn, onEvent: onEvent, done: make(chan struct{}), pending: make(map[uint64]chan message)}
	go c.read()
	if _, err := c.Execute(ctx, "qmp_capabilities", nil); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Execute runs one command with its arguments (nil, or a value that marshals to a JSON object) and returns QEMU's answer.
// The error is an *Error if QEMU refuses.
func (c *Client) Execute(ctx context.Context, command string, arguments any) (json.RawMessage, error) {
	answer := make(chan message, 1)
	id, err := c.send(command, arguments, answer)
	if err != nil {
		return nil, fmt.Errorf("qmp %s: %w", command, err)
	}
	defer c.forget(id)
	select {
	case m := <-answer:
		if m.Error != nil {
			m.Error.Command = command
			return nil, m.Error
		}
		return m.Return, nil
	case <-c.done:
		return nil, fmt.Errorf("qmp %s: %w", command, c.ended())
	case <-ctx.Done():
		return nil, fmt.Errorf("qmp %s: %w", command, context.Cause(ctx))
	}
}

// Close ends the connection; QEMU stays.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

func (c *Client) send(command string, arguments any, answer chan message) (uint64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextID++
	request, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, arguments, c.nextID})
	if err != nil {
		return 0, fmt.Errorf("encode arguments: %w", err)
	}
	c.pending[c.nextID] = answer
	if _, err := c.conn.Write(append(request, '\n')); err != nil {
		delete(c.pending, c.nextID)
		return 0, err
	}
	return c.nextID, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

func (c *Client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Client) read() {
	defer close(c.done)
	dec := json.NewDecoder(c.conn)
	for {
		var m message
		if err := dec.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			return
		}
		switch {
		case m.QMP != nil: // the greeting has only unrequested data
		case m.Name != "":
			c.onEvent(m.Event)
		default:
			c.deliver(m)
		}
	}
}

func (c *Client) deliver(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.pending[m.ID]; ok {
		answer <- m
		delete(c.pending, m.ID)
	}
}
