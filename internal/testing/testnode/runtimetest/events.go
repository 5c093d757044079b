package runtimetest

import (
	"context"
	"errors"
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// events checks that each step of a pod and a container has an event after it. Repeated events
// and events of other pods may come between.
func (b *bench) events() {
	if b.NoEvents {
		b.Skip("the runtime sends no events")
	}
	ctx, cancel := context.WithCancel(b.Context())
	events, states := make(chan cri.Event, 10_000), make(chan cri.StreamState, 100)
	done := make(chan error, 1)
	go func() {
		done <- b.Client.Watch(ctx, cri.Handler{
			Event:  func(e cri.Event) { events <- e },
			Stream: func(s cri.StreamState, _ error) { states <- s },
		})
	}()
	defer func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			b.Errorf("Watch() = %v; want its context's error", err)
		}
	}()
	select {
	case s := <-states:
		if s != cri.Connected {
			b.Fatalf("event stream %v; want it connected", s)
		}
	case <-time.After(limit):
		b.Fatal("no event stream")
	}

	var pod string
	expect := func(id string, kind cri.EventKind) {
		b.Helper()
		timeout := time.After(limit)
		for {
			select {
			case e := <-events:
				if e.ContainerID != id || e.Kind != kind {
					continue
				}
				// After a removal, the runtime may not know the pod.
				if kind != cri.ContainerDeleted && e.PodID != pod {
					b.Errorf("event %+v; want it to name pod %s", e, pod)
				}
				if age := time.Since(e.At); age < 0 || age > limit {
					b.Errorf("event of %v ago", age)
				}
				return
			case <-timeout:
				b.Fatalf("no event that %s was %v", id, kind)
			}
		}
	}
	pod = b.pod()
	if !b.QuietSandboxes {
		expect(pod, cri.ContainerCreated)
	}
	expect(pod, cri.ContainerStarted)
	id := b.container(pod)
	expect(id, cri.ContainerCreated)
	b.must(b.Runtime.StartContainer(id))
	expect(id, cri.ContainerStarted)
	b.must(b.Runtime.StopContainer(id))
	expect(id, cri.ContainerStopped)
	b.must(b.Runtime.RemoveContainer(id))
	expect(id, cri.ContainerDeleted)
	b.must(b.Runtime.StopPod(pod))
	expect(pod, cri.ContainerStopped)
	b.must(b.Runtime.RemovePod(pod))
	if !b.QuietSandboxes {
		expect(pod, cri.ContainerDeleted)
	}
}
