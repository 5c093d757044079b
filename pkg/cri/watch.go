package cri

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamState is the state of the event stream.
type StreamState string

const (
	// Connecting is the state before the first report. It is never reported.
	Connecting StreamState = ""
	// Connected means that from now on each change causes an event. Earlier changes
	// are only in a list: list now.
	Connected StreamState = "connected"
	// Lost means that the connection is lost; Watch tries it again.
	Lost StreamState = "lost"
	// Unsupported means that the runtime has no event stream, or has it switched
	// off (CRI-O's enable_pod_events). Poll. It is tried again now and then.
	Unsupported StreamState = "unsupported"
)

// Handler receives the calls of Watch, from one goroutine and in order. It may
// take its time: events queue up here, never in the runtime.
type Handler struct {
	Event  func(Event)
	Stream func(StreamState, error) // receives each change of state, with the reason for Lost and Unsupported
}

const (
	// settle is how long a new stream must last before it counts as connected.
	// gRPC does not report that the runtime has accepted a stream before the first
	// message, and CRI-O ends a stream that is switched off at once.
	settle = 500 * time.Millisecond
	// retryUnsupported is the pause before a retry of a stream that the runtime does not
	// offer. After an upgrade or a change of its configuration
	// the runtime restarts without a notice.
	retryUnsupported = time.Minute
	// The bounds of the growing pause before a lost stream is tried again.
	retryFirst, retryLast = 200 * time.Millisecond, 10 * time.Second
)

// Watch follows the runtime's event stream until ctx ends, and returns its
// error. It reconnects automatically, with growing, random pauses. One Watch
// per node is enough: the runtime waits for each subscriber, and
// on containerd before 2.0 a subscriber takes events from the others.
func (c *Client) Watch(ctx context.Context, h Handler) error {
	return watch(ctx, h, func(ctx context.Context) (eventStream, error) {
		return c.rpc.GetContainerEvents(ctx, &runtime.GetEventsRequest{})
	})
}

// eventStream is the receiving half of GetContainerEvents.
type eventStream interface {
	Recv() (*runtime.ContainerEventResponse, error)
}

type openFunc func(context.Context) (eventStream, error)

func watch(ctx context.Context, h Handler, open openFunc) error {
	q := new(queue)
	q.filled.L = &q.mu
	go func() {
		defer q.close()
		follow(ctx, q, open)
	}()
	for {
		notices := q.take()
		if len(notices) == 0 {
			return ctx.Err()
		}
		for _, n := range notices {
			switch {
			case ctx.Err() != nil:
			case n.state != Connecting:
				h.Stream(n.state, n.err)
			default:
				h.Event(n.event)
			}
		}
	}
}

// notice is one call of a Handler: a change of state or an event.
type notice struct {
	state StreamState
	err   error
	event Event
}

// follow connects again and again and puts all notices into q.
func follow(ctx context.Context, q *queue, open openFunc) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = retryFirst, retryLast
	state := Connecting
	enter := func(s StreamState, err error) {
		if s != state {
			state = s
			q.put(notice{state: s, err: err})
		}
	}
	for {
		err := followOnce(ctx, q, open, func() {
			pauses.Reset()
			enter(Connected, nil)
		})
		if ctx.Err() != nil {
			return
		}
		pause := retryUnsupported
		if errors.Is(err, ErrNotSupported) {
			enter(Unsupported, err)
		} else {
			pause = pauses.NextBackOff()
			enter(Lost, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// followOnce reads one stream to its end and returns why it ended. It calls
// settled, at most once, when the stream counts as connected.
func followOnce(ctx context.Context, q *queue, open openFunc, settled func()) error {
	// The end of the context informs gRPC, and so the runtime, that the stream has no
	// reader any longer.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return fmt.Errorf("open event stream: %w", fromGRPC(err))
	}
	events, ended := 0, make(chan error, 1)
	go func() {
		r, err := stream.Recv()
		for ; err == nil; r, err = stream.Recv() {
			events++
			// A hint needs little of the message, which holds the status of the whole pod.
			q.put(notice{event: Event{
				ContainerID: r.GetContainerId(),
				Kind:        EventKind(r.GetContainerEventType()),
				At:          time.Unix(0, r.GetCreatedAt()),
				PodID:       r.GetPodSandboxStatus().GetId(),
			}})
		}
		ended <- err
	}()
	settling := time.NewTimer(settle)
	defer settling.Stop()
	select {
	case <-settling.C:
		settled()
		err = <-ended
	case err = <-ended:
		if errors.Is(err, io.EOF) && events == 0 {
			return fmt.Errorf("open event stream: %w: it ended at once (CRI-O: set enable_pod_events = true)", ErrNotSupported)
		}
	}
	return fmt.Errorf("read event stream: %w", fromGRPC(err))
}

// Event reports a change of a container or of a pod's sandbox. It is only a
// hint: events are lost, repeated, late and, on containerd before
// 2.0, taken away by other subscribers. Changes of resources cause no event.
type Event struct {
	ContainerID string // sandbox id if the event is about the sandbox
	Kind        EventKind
	At          time.Time
	PodID       string // empty where the runtime could not tell
}

// EventKind is the kind of a change.
type EventKind int

// The values of CRI's ContainerEventType. ContainerStarted comes after the
// entrypoint has begun to run.
const (
	ContainerCreated EventKind = iota
	ContainerStarted
	ContainerStopped
	ContainerDeleted
)

// queue is an unbounded queue between the goroutine that reads the runtime's
// stream and the one that runs the caller's code. It is unbounded because
// containerd since 2.0 makes every CreateContainer and StartContainer of the
// node wait for its slowest subscriber. Queued values are small.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond // on mu
	items  []notice
	closed bool
}

// put appends an item. It never waits for the reader.
func (q *queue) put(item notice) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, item)
	q.filled.Signal()
}

// close makes take return no items after the last one.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Signal()
}

// take waits for items and returns all that there are, or none after close.
func (q *queue) take() []notice {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 && !q.closed {
		q.filled.Wait()
	}
	items := q.items
	q.items = nil
	return items
}
