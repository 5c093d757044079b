package testnode

import (
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// EventMode is the behavior of GetContainerEvents.
type EventMode int

const (
	// EventsPerSubscriber is the mode of containerd 2.0 and later. Each subscriber has a queue of
	// 100 events, and the publisher waits for the slowest one. Events without a subscriber are
	// kept for the next one.
	EventsPerSubscriber EventMode = iota
	// EventsShared is the mode of containerd 1.7. All subscribers share one queue of 1,000
	// events: each event goes to one of them. Events beyond the limit are dropped.
	EventsShared
	// EventsOff is the mode of CRI-O with enable_pod_events = false, its default. The stream ends
	// immediately and without an error.
	EventsOff
	// EventsUnimplemented is the mode of runtimes before CRI 1.26.
	EventsUnimplemented
)

type eventServer = grpc.ServerStreamingServer[runtime.ContainerEventResponse]

type events struct {
	mode   EventMode
	shared chan *runtime.ContainerEventResponse

	// mu is held while the publisher waits. New subscribers wait as well, as in containerd. It
	// guards the fields below.
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
