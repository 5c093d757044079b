package testnode

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// EventMode is what GetContainerEvents does.
type EventMode int

const (
	// EventsPerSubscriber is containerd 2.0 and later: a queue of 100 for each
	// subscriber, the publisher waits for the slowest one, and what happens while
	// nobody listens is kept for the first who does.
	EventsPerSubscriber EventMode = iota
	// EventsShared is containerd 1.7: one queue of 1,000 from which the
	// subscribers take events from each other, and what exceeds it is dropped.
	EventsShared
	// EventsOff is CRI-O with enable_pod_events = false, its default: the stream
	// ends at once and without an error.
	EventsOff
	// EventsUnimplemented is a runtime of before CRI 1.26.
	EventsUnimplemented
)

type eventServer = grpc.ServerStreamingServer[runtime.ContainerEventResponse]

type events struct {
	mode   EventMode
	shared chan *runtime.ContainerEventResponse

	// mu is held while the publisher waits: who subscribes waits as well, as in
	// containerd. It guards what follows.
	mu          sync.Mutex
	kept        []*runtime.ContainerEventResponse
	subscribers []*subscriber
}

type subscriber struct {
	backlog []*runtime.ContainerEventResponse
	c       chan *runtime.ContainerEventResponse
	done    <-chan struct{}
}

func newEvents(m EventMode) *events {
	return &events{mode: m, shared: make(chan *runtime.ContainerEventResponse, 1000)}
}

func (e *events) publish(ev *runtime.ContainerEventResponse) {
	switch e.mode {
	case EventsPerSubscriber:
		e.mu.Lock()
		defer e.mu.Unlock()
		e.publishToAll(ev)
	case EventsShared:
		select {
		case e.shared <- ev:
		default:
		}
	}
}

func (e *events) publishToAll(ev *runtime.ContainerEventResponse) {
	active := e.subscribers[:0]
	for _, s := range e.subscribers {
		select {
		case s.c <- ev:
			active = append(active, s)
		case <-s.done:
		}
	}
	e.subscribers = active
	if len(active) == 0 {
		e.kept = append(e.kept, ev)
	}
}

func (e *events) serve(stream eventServer) error {
	switch e.mode {
	case EventsOff:
		return nil
	case EventsUnimplemented:
		return status.Error(codes.Unimplemented, "unknown method GetContainerEvents")
	case EventsShared:
		return e.copy(stream, e.shared)
	}
	s := &subscriber{c: make(chan *runtime.ContainerEventResponse, 100), done: stream.Context().Done()}
	e.mu.Lock()
	s.backlog, e.kept = e.kept, nil
	e.subscribers = append(e.subscribers, s)
	e.mu.Unlock()
	for _, ev := range s.backlog {
		if err := stream.Send(ev); err != nil {
			return err
		}
	}
	return e.copy(stream, s.c)
}

func (e *events) copy(stream eventServer, from <-chan *runtime.ContainerEventResponse) error {
	for {
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case ev := <-from:
			if err := stream.Send(ev); err != nil {
				return err
			}
		}
	}
}
