package cri_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/internal/testing/testnode"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// waitTimeout bounds waits that end at once unless the test fails.
const waitTimeout = time.Minute

type transition struct {
	state cri.StreamState
	err   error
}

// watching runs Watch until the end of the test and passes on its reports.
func watching(t *testing.T, c *cri.Client, onEvent func(cri.Event)) <-chan transition {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	transitions := make(chan transition, 100)
	done := make(chan error, 1)
	go func() {
		done <- c.Watch(ctx, cri.Handler{
			Event:  onEvent,
			Stream: func(s cri.StreamState, err error) { transitions <- transition{s, err} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Watch() = %v; want its context's error", err)
		}
	})
	return transitions
}

// await returns the next value, or fails the test.
func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(waitTimeout):
		t.Fatalf("no %s within %v", what, waitTimeout)
		panic("unreachable")
	}
}

func awaitState(t *testing.T, c <-chan transition, want cri.StreamState) transition {
	t.Helper()
	got := await(t, string(want)+" stream", c)
	if got.state != want {
		t.Fatalf("stream %v (%v); want %v", got.state, got.err, want)
	}
	if (got.err == nil) != (want == cri.Connected) {
		t.Errorf("stream %v: error = %v; want one unless connected", got.state, got.err)
	}
	return got
}

func TestWatchEvents(t *testing.T) {
	t.Parallel()
	for _, mode := range []testnode.EventMode{testnode.EventsPerSubscriber, testnode.EventsShared} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			r, c := start(t, testnode.RuntimeConfig{Events: mode})
			got := make(chan cri.Event, 100)
			transitions := watching(t, c, func(e cri.Event) { got <- e })
			awaitState(t, transitions, cri.Connected)
			before := time.Now()
			pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: "the-uid", Name: "p"}))
			id := must[string](t)(r.CreateContainer(pod, testnode.ContainerSpec{Name: "c"}))
			for _, step := range []func() error{
				func() error { return r.StartContainer(id) },
				func() error { return r.StopContainer(id) },
				func() error { return r.RemoveContainer(id) },
			} {
				if err := step(); err != nil {
					t.Fatal(err)
				}
			}
			for _, want := range []cri.Event{
				{ContainerID: pod, Kind: cri.ContainerCreated},
				{ContainerID: pod, Kind: cri.ContainerStarted},
				{ContainerID: id, Kind: cri.ContainerCreated},
				{ContainerID: id, Kind: cri.ContainerStarted},
				{ContainerID: id, Kind: cri.ContainerStopped},
				{ContainerID: id, Kind: cri.ContainerDeleted},
			} {
				e := await(t, "event", got)
				if e.At.Before(before) || e.At.After(time.Now()) {
					t.Errorf("time of the event = %v; want it within the test", e.At)
				}
				want.At, want.PodID = e.At, pod
				if e != want {
					t.Errorf("event %+v; want %+v", e, want)
				}
			}
		})
	}
}

// A handler that hangs must not make the runtime wait. The second half shows
// that this runtime does wait for a subscriber that doesn't read.
func TestWatchStalledHandler(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	release := make(chan struct{})
	events := make(chan cri.Event, 100_000)
	transitions := watching(t, c, func(e cri.Event) {
		<-release
		events <- e
	})
	awaitState(t, transitions, cri.Connected)

	// Enough to fill the runtime's queue of 100 and the windows of HTTP/2.
	const enough = 1000
	ran := make(chan error)
	stop := make(chan struct{})
	go func() {
		annotations := map[string]string{"note": strings.Repeat("x", 4096)}
		for {
			_, err := r.RunPod(testnode.PodSpec{UID: "u", Name: "p", Annotations: annotations})
			select {
			case ran <- err:
			case <-stop:
				close(ran)
				return
			}
		}
	}()
	for range enough {
		if err := await(t, "end of a pod's start", ran); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	for range 2 * enough {
		await(t, "event", events)
	}

	conn := must[*grpc.ClientConn](t)(grpc.NewClient(r.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials())))
	must[grpc.ServerStreamingClient[runtime.ContainerEventResponse]](t)(
		runtime.NewRuntimeServiceClient(conn).GetContainerEvents(t.Context(), &runtime.GetEventsRequest{}))
	stalled := false
	for n := 0; n < 2*enough && !stalled; n++ {
		select {
		case err := <-ran:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(2 * time.Second):
			stalled = true
		}
	}
	if !stalled {
		t.Error("a subscriber that doesn't read does not stall this runtime: the test above shows nothing")
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := await(t, "end of a pod's start", ran); err != nil {
		t.Fatal(err)
	}
	close(stop)
	for range ran {
		// until it has ended
	}
}

func TestWatchReconnects(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	events := make(chan cri.Event, 100)
	transitions := watching(t, c, func(e cri.Event) { events <- e })
	awaitState(t, transitions, cri.Connected)
	for range 2 {
		r.Down()
		awaitState(t, transitions, cri.Lost)
		if err := r.Up(); err != nil {
			t.Fatal(err)
		}
		awaitState(t, transitions, cri.Connected)
		pod := must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p"}))
		for range 2 {
			if e := await(t, "event", events); e.ContainerID != pod {
				t.Errorf("event of %s; want one of %s", e.ContainerID, pod)
			}
		}
	}
}

func TestWatchUnsupported(t *testing.T) {
	t.Parallel()
	for _, mode := range []testnode.EventMode{testnode.EventsOff, testnode.EventsUnimplemented} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			t.Parallel()
			r, c := start(t, testnode.RuntimeConfig{Flavor: testnode.CRIO, Events: mode})
			transitions := watching(t, c, func(e cri.Event) { t.Errorf("event %+v", e) })
			if got := awaitState(t, transitions, cri.Unsupported); !errors.Is(got.err, cri.ErrNotSupported) {
				t.Errorf("reason %v; want ErrNotSupported", got.err)
			}
			// Polling works while the stream is down.
			must[string](t)(r.RunPod(testnode.PodSpec{UID: "u", Name: "p"}))
			if pods, _, err := c.List(t.Context()); err != nil || len(pods) != 1 {
				t.Errorf("List: %d pods, %v; want 1", len(pods), err)
			}
		})
	}
}

func TestWatchWithoutRuntime(t *testing.T) {
	t.Parallel()
	r, c := start(t, testnode.RuntimeConfig{})
	r.Down()
	transitions := watching(t, c, func(cri.Event) {})
	awaitState(t, transitions, cri.Lost)
	if err := r.Up(); err != nil {
		t.Fatal(err)
	}
	awaitState(t, transitions, cri.Connected)
}
