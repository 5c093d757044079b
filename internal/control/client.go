package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/cpupoold/cpupoold/internal/inspect"
)

// ErrNoDaemon means that no process listens on the socket.
var ErrNoDaemon = errors.New("no daemon is running")

// Client sends requests to the daemon behind a socket.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	// A daemon that ends closes idle connections, and a request that changes state is not sent twice.
	// So a request on a kept connection can fail although another daemon listens already.
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// Reach connects once. It returns ErrNoDaemon if no process listens.
func (c *Client) Reach(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", c.socket)
	if err != nil {
		return c.connectionError(err)
	}
	return conn.Close()
}

// Move requests moves and returns one result for each, in the same order. It sets no
// deadline, because the daemon limits the time of each move.
func (c *Client) Move(ctx context.Context, moves []Move) ([]Result, error) {
	body, err := json.Marshal(moves)
	if err != nil {
		return nil, fmt.Errorf("encode moves: %w", err)
	}
	var results []Result
	if err := c.do(ctx, http.MethodPost, "moves", body, 4*maxBody, &results); err != nil {
		return nil, err
	}
	if len(results) != len(moves) {
		return nil, fmt.Errorf("the daemon at %s answers for %d of %d moves", c.socket, len(results), len(moves))
	}
	return results, nil
}

// do sends a request with a body in JSON, if any, and decodes an answer of at most limit bytes.
func (c *Client) do(ctx context.Context, method, path string, body []byte, limit int64, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://cpupoold/v1/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return c.connectionError(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, limit))
	if err != nil {
		return c.connectionError(err)
	}
	if answer.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, into); err != nil {
			return fmt.Errorf("the daemon at %s: decode its answer: %w", c.socket, err)
		}
		return nil
	}
	var f failure
	if json.Unmarshal(text, &f) != nil {
		f = failure{}
	}
	switch {
	case answer.StatusCode == http.StatusNoContent:
		return nil
	case answer.StatusCode == http.StatusNotFound && f.Error != "":
		return &inspect.NameError{Text: f.Error}
	case answer.StatusCode == http.StatusConflict && f.Error != "":
		return Conflict{f.Error}
	}
	return fmt.Errorf("the daemon at %s: %s", c.socket, cmp.Or(f.Error, answer.Status))
}

// connectionError adds the remedy to the error of a connection.
func (c *Client) connectionError(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: no process listens on %s; start cpupoold run, or check runDir", ErrNoDaemon, c.socket)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("connect to %s: permission denied; run the command as root", c.socket)
	}
	return fmt.Errorf("send request to the daemon at %s: %w", c.socket, err)
}
