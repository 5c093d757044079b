package cri

import (
	"time"

	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Event reports a change of a container or of a pod's sandbox. It is only a
// hint: events are lost, repeated, late and, on containerd before
// 2.0, taken away by other subscribers. Changes of resources cause no event.
type Event struct {
	ContainerID string // sandbox id if the event is about the sandbox
	Kind        EventKind
	At          time.Time
	// PodID and PodUID are empty where the runtime could not tell.
	PodID, PodUID string
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

// eventOf keeps the little that a hint needs: the message holds the status of
// the whole pod.
func eventOf(r *runtime.ContainerEventResponse) Event {
	return Event{
		ContainerID: r.GetContainerId(),
		Kind:        EventKind(r.GetContainerEventType()),
		At:          time.Unix(0, r.GetCreatedAt()),
		PodID:       r.GetPodSandboxStatus().GetId(),
		PodUID:      r.GetPodSandboxStatus().GetMetadata().GetUid(),
	}
}
