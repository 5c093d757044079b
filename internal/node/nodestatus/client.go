package nodestatus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The types of patches (RFC 7386, and Kubernetes' own).
const (
	applyPatch     = "application/apply-patch+yaml"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

// The forms of answers (Kubernetes API concepts, "Metadata-only fetches").
const (
	wholeObjects = "application/json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// manager is the name under which the API server records who has set which field.
const manager = "cpupoold"

// Answers that are longer are not read: the API server itself refuses objects above
// 3 MiB.
const maxAnswer = 8 << 20

// pings tell a connection whose other end is gone from one over which nothing happens.
const (
	pingAfter = 30 * time.Second
	pingWait  = 15 * time.Second
)

// client talks to one API server. It is used by one goroutine at a time.
type client struct {
	access *Access
	agent  string
	accept string // the form of answers; empty for the whole objects
	limits Limits
	ca     []byte
	http   *http.Client
	broken bool // something was wrong with a connection
}

// Limits are how long the API server is waited for. The zero value stands for those
// of production.
type Limits struct {
	// Call bounds a request, and the first answer of a watch. Default: 10s.
	Call time.Duration
	// Watch is how long a watch is asked for at least, and up to twice as long; it
	// is given up a little later. Default: 10m.
	Watch time.Duration
	// Start is how late the first request is at most: the nodes of a cluster start
	// together when power comes back. Default: 5s.
	Start time.Duration
	// Pause is how long the first pause after a failure is at most: all nodes lose an
	// API server in the same moment. Further ones grow up to a minute. Default: 10s.
	Pause time.Duration
	// Gap is the shortest time between two patches; it grows while somebody undoes
	// them. Default: 500ms.
	Gap time.Duration
	// Settle is how long there must have been a problem before it becomes an event:
	// much of what a pod lacks at its start is there a moment later. Default: 3s.
	Settle time.Duration
}

func (l Limits) orDefault() Limits {
	for _, d := range []struct {
		value   *time.Duration
		instead time.Duration
	}{
		{&l.Call, 10 * time.Second},
		{&l.Watch, 10 * time.Minute},
		{&l.Start, 5 * time.Second},
		{&l.Pause, 10 * time.Second},
		{&l.Gap, 500 * time.Millisecond},
		{&l.Settle, 3 * time.Second},
	} {
		if *d.value == 0 {
			*d.value = d.instead
		}
	}
	return l
}

// statusError is the API server's answer to what it does not do.
type statusError struct {
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`

	retryAfter time.Duration
}

func (e *statusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("API server answers %d: %s", e.Code, e.Message)
}

// final says that the same request will be answered the same: it is forbidden, or the
// object does not take it. Not so with rights that are not known yet (401), changes of
// others (409), and servers that have too much to do (408, 429, 5xx).
func (e *statusError) final() bool {
	switch e.Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return e.Code/100 == 4
}

// isStatus says that an error is the answer of this code.
func isStatus(err error, code int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == code
}

// connect makes the client ready for a request. The certificate authority may have been
// replaced, and what is left of a connection that has failed may hang. One that has not
// is kept: a handshake costs an API server more than most requests.
func (c *client) connect() error {
	access, err := c.access.read()
	if err != nil {
		return err
	}
	c.access = access
	ca, err := c.access.ca.read()
	if err != nil {
		return fmt.Errorf("certificate authority of the API server: %w", err)
	}
	if c.http != nil {
		same := bytes.Equal(ca, c.ca)
		if c.broken || !same {
			c.http.CloseIdleConnections()
			c.broken = false
		}
		if same {
			return nil
		}
	}
	secure, err := c.access.tls(ca)
	if err != nil {
		return err
	}
	c.ca = ca
	c.http = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			TLSClientConfig:       secure,
			TLSHandshakeTimeout:   c.limits.Call,
			ResponseHeaderTimeout: c.limits.Call,
			IdleConnTimeout:       time.Minute,
			ForceAttemptHTTP2:     true,
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingWait},
		},
	}
	return nil
}

// call makes a request and decodes the answer into out, unless that is nil.
func (c *client) call(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Call)
	defer cancel()
	query := url.Values{"fieldManager": {manager}}
	if contentType == applyPatch { // whoever else has written to the object
		query.Set("force", "true")
	}
	return c.exchange(ctx, method, path, query, contentType, body, out)
}

// get asks for objects and decodes the answer into out.
func (c *client) get(ctx context.Context, path string, query url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Call)
	defer cancel()
	return c.exchange(ctx, "GET", path, query, "", nil, out)
}

func (c *client) exchange(ctx context.Context, method, path string, query url.Values, contentType string, body []byte, out any) error {
	answer, err := c.open(ctx, method, path, query, contentType, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }() // it has been read
	data, err := io.ReadAll(io.LimitReader(answer, maxAnswer))
	if err != nil {
		c.broken = true
		return fmt.Errorf("read answer of the API server: %w", err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("answer of the API server to %s %s: %w", method, path, err)
	}
	return nil
}

// open makes a request and returns the body of the answer, which is to be closed. An
// answer that is no success is a *statusError.
func (c *client) open(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (io.ReadCloser, error) {
	target := *c.access.server
	target.Path, target.RawQuery = target.Path+path, query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	token, err := c.access.bearer()
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	request.Header.Set("Accept", cmp.Or(c.accept, wholeObjects))
	request.Header.Set("User-Agent", c.agent)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := c.http.Do(request)
	if err != nil {
		c.broken = true
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	if answer.StatusCode/100 == 2 {
		return answer.Body, nil
	}
	// A proxy on the way to servers that are gone may still hold the connection.
	c.broken = c.broken || answer.StatusCode/100 == 5
	defer func() { _ = answer.Body.Close() }()
	failure := &statusError{}
	if data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)); err == nil {
		if json.Unmarshal(data, failure) != nil { // a proxy's page
			failure = &statusError{}
		}
	}
	failure.Code = answer.StatusCode
	failure.retryAfter = retryAfterHeader(answer.Header.Get("Retry-After"))
	return nil, failure
}

// retryAfterHeader is how long the API server wants to be left alone, longestAsked at
// most: what a proxy says while it restarts the server must not last for an hour.
func retryAfterHeader(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestAsked)
}
