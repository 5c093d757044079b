package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"
)

// ErrNoDaemon is returned when nobody listens on the socket.
var ErrNoDaemon = errors.New("no daemon is running")

// Client asks the daemon behind a socket.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close gives up idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Reach returns an error, ErrNoDaemon among others, unless somebody listens.
func (c *Client) Reach(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return c.explain(err)
	}
	return conn.Close()
}

// Move asks for moves and returns what became of each, in their order. It has no
// deadline of its own: the daemon answers in bounded time for each move.
func (c *Client) Move(ctx context.Context, moves []Move) ([]Result, error) {
	body, err := json.Marshal(moves)
	if err != nil {
		return nil, fmt.Errorf("encode moves: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cpupoold/v1/moves", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	text, err := c.do(r, 4*maxBody)
	if err != nil {
		return nil, err
	}
	var results []Result
	if err := json.Unmarshal(text, &results); err != nil {
		return nil, fmt.Errorf("the daemon at %s: decode its answer: %w", c.socket, err)
	}
	if len(results) != len(moves) {
		return nil, fmt.Errorf("the daemon at %s answers for %d of %d moves", c.socket, len(results), len(moves))
	}
	return results, nil
}

// do makes a request and returns the answer, of which it reads no more than limit bytes.
func (c *Client) do(r *http.Request, limit int64) ([]byte, error) {
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, c.explain(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err != nil {
		return nil, c.explain(err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the daemon at %s: %s", c.socket, reason(answer.Status, text))
	}
	return text, nil
}

// explain says what to do about a connection that fails.
func (c *Client) explain(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nobody listens on %s; start cpupoold run, or see runDir", ErrNoDaemon, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("connect to %s: permission denied; the socket is root's", c.socket)
	}
	return fmt.Errorf("ask the daemon at %s: %w", c.socket, err)
}

// reason is what an answer that is no success says.
func reason(status string, text []byte) string {
	var f failure
	if json.Unmarshal(text, &f) == nil && f.Error != "" {
		return f.Error
	}
	return status
}
