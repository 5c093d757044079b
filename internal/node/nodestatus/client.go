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

// Content types of patches (Kubernetes API concepts, "Patches and updates").
const (
	applyPatch     = "application/apply-patch+yaml"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
)

// Content types of answers (Kubernetes API concepts, "Metadata-only fetches").
const (
	wholeObjects = "application/json"
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	metadataList = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// manager is the field manager of the daemon's changes.
const manager = "cpupoold"

// maxAnswer is the maximum size of an answer in bytes. Objects have 3 MiB at most.
const maxAnswer = 8 << 20

// HTTP/2 pings detect that the peer of a silent connection no longer exists.
const (
	pingInterval = 30 * time.Second
	pingTimeout  = 15 * time.Second
)

// client sends requests to one API server. One goroutine at a time may use it.
type client struct {
	access *Access
	agent  string
	accept string // content type of answers; empty for whole objects
	limits Limits
	ca     []byte
	http   *http.Client
	broken bool // a request has failed since the last connect
}

// Limits holds timeouts and intervals. A zero field has its default.
type Limits struct {
	// Call is the timeout of a request, and of the first answer of a watch. Default: 10s.
	Call time.Duration
	// Watch is the minimum duration of a watch. The client requests a random duration up to
	// twice as long, and gives up one Call after its end. Default: 10m.
	Watch time.Duration
	// Start is the maximum random delay of the first request: after a power failure all nodes
	// of a cluster start at the same time. Default: 5s.
	Start time.Duration
	// Pause is the maximum of the first random pause after a failure: all nodes lose an API
	// server at the same time. The maximum doubles up to a minute. Default: 10s.
	Pause time.Duration
	// Gap is the minimum interval between two patches. It grows while another client reverts
	// them. Default: 500ms.
	Gap time.Duration
	// Settle is the minimum age of a problem before it becomes an event. Many problems of a
	// starting pod disappear within a second. Default: 3s.
	Settle time.Duration
}

func (l Limits) withDefaults() Limits {
	return Limits{
		Call:   cmp.Or(l.Call, 10*time.Second),
		Watch:  cmp.Or(l.Watch, 10*time.Minute),
		Start:  cmp.Or(l.Start, 5*time.Second),
		Pause:  cmp.Or(l.Pause, 10*time.Second),
		Gap:    cmp.Or(l.Gap, 500*time.Millisecond),
		Settle: cmp.Or(l.Settle, 3*time.Second),
	}
}

// statusError is an answer of the API server with a status other than success.
type statusError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`

	retryAfter time.Duration
}

func (e *statusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("API server answers %d %s", e.Code, http.StatusText(e.Code))
	}
	return fmt.Sprintf("API server answers %d: %s", e.Code, e.Message)
}

// isFinal reports whether the same request will fail again: it is forbidden or invalid.
func (e *statusError) isFinal() bool {
	switch e.Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	}
	return e.Code/100 == 4
}

func isStatus(err error, code int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Code == code
}

// connect prepares the client for a request. It closes connections after a failure, because they may
// hang, and keeps others: a TLS handshake costs an API server more than most requests.
func (c *client) connect() error {
	if c.access.deferredFile != "" {
		access, err := Kubeconfig(c.access.deferredFile)
		if err != nil {
			return err
		}
		c.access = access
	}
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
			HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingInterval, PingTimeout: pingTimeout},
		},
	}
	return nil
}

// call changes or reads an object, and decodes the answer into out, unless out is nil.
func (c *client) call(ctx context.Context, method, path, contentType string, body []byte, out any) error {
	query := url.Values{"fieldManager": {manager}}
	if contentType == applyPatch { // take fields from other managers
		query.Set("force", "true")
	}
	return c.exchange(ctx, method, path, query, contentType, body, out)
}

func (c *client) exchange(ctx context.Context, method, path string, query url.Values, contentType string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.limits.Call)
	defer cancel()
	answer, err := c.open(ctx, method, path, query, contentType, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	data, err := io.ReadAll(io.LimitReader(answer, maxAnswer))
	if err != nil {
		c.broken = true
		return fmt.Errorf("read answer of the API server: %w", err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode answer of the API server to %s %s: %w", method, path, err)
	}
	return nil
}

// open sends a request. The caller closes the body. Other statuses than success are a *statusError.
func (c *client) open(ctx context.Context, method, path string, query url.Values, contentType string, body []byte) (io.ReadCloser, error) {
	if err := c.connect(); err != nil {
		return nil, err
	}
	target := *c.access.server
	target.Path, target.RawQuery = target.Path+path, query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask the API server: %w", err)
	}
	token, err := c.access.bearerToken()
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
	// A proxy may keep a connection to a server that has stopped.
	c.broken = c.broken || answer.StatusCode/100 == 5
	defer func() { _ = answer.Body.Close() }()
	failure := &statusError{}
	data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil || json.Unmarshal(data, failure) != nil { // such as an HTML page of a proxy
		failure = &statusError{}
	}
	failure.Code = answer.StatusCode
	failure.retryAfter = retryAfterHeader(answer.Header.Get("Retry-After"))
	return nil, failure
}

// retryAfterHeader returns at most maxRetryAfter: a proxy can send an hour during a restart.
func retryAfterHeader(text string) time.Duration {
	seconds, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
