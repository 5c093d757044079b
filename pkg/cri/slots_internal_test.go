package cri

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// statuses is a runtime that replies with these statuses, by the IDs of containers.
type statuses struct {
	runtime.UnimplementedRuntimeServiceServer
	replies map[string]*runtime.ContainerStatusResponse
}

func (s *statuses) ContainerStatus(_ context.Context, r *runtime.ContainerStatusRequest) (*runtime.ContainerStatusResponse, error) {
	return s.replies[r.GetContainerId()], nil
}

// sentBytes counts the bytes that a server sends.
type sentBytes struct {
	net.Listener
	n atomic.Int64
}

func (s *sentBytes) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	return &countedConn{c, &s.n}, err
}

type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.n.Add(int64(n))
	return n, err
}

// reserved counts the bytes that the calls of a client in progress may receive.
type reserved struct {
	runtime.RuntimeServiceClient
	mu        sync.Mutex // guards the fields below
	now, most int
	large     int // calls for large replies
}

func (r *reserved) ContainerStatus(ctx context.Context, in *runtime.ContainerStatusRequest, opts ...grpc.CallOption) (*runtime.ContainerStatusResponse, error) {
	limit := 0
	for _, o := range opts {
		if o, is := o.(grpc.MaxRecvMsgSizeCallOption); is {
			limit = o.MaxRecvMsgSize
		}
	}
	add := func(limit int) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if limit > smallStatus {
			r.large++
		}
		r.now += limit
		r.most = max(r.most, r.now)
	}
	add(limit)
	defer add(-limit)
	return r.RuntimeServiceClient.ContainerStatus(ctx, in, opts...)
}

// serveStatuses starts a runtime, and returns a client of it.
func serveStatuses(t *testing.T, replies map[string]*runtime.ContainerStatusResponse) (*Client, *reserved, *sentBytes) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	sent := &sentBytes{Listener: l}
	server := grpc.NewServer()
	server.RegisterService(&runtime.RuntimeService_ServiceDesc, &statuses{replies: replies})
	served := make(chan error)
	go func() { served <- server.Serve(sent) }()
	c, err := Dial(socket, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	calls := &reserved{RuntimeServiceClient: c.rpc}
	c.rpc = calls
	return c, calls, sent
}

// TestLargeStatuses checks that the client reads the statuses of containers with large
// environments, one at a time. gRPC receives only the begin of replies that wait for their turn. A
// reply that is too large is an error that costs no other container anything.
func TestLargeStatuses(t *testing.T) {
	const n = 8
	large := statusWithEnvironment(t, 4<<20)
	size := len(encoded(t, large))
	replies := map[string]*runtime.ContainerStatusResponse{"huge": statusWithEnvironment(t, 17<<20), "small": statusWithEnvironment(t, 64<<10)}
	for i := range n {
		replies[fmt.Sprint(i)] = large
	}
	c, calls, sent := serveStatuses(t, replies)
	for range 3 { // gRPC must not learn from large replies to receive more in advance
		if _, err := c.ContainerStatus(t.Context(), "0"); err != nil {
			t.Fatal(err)
		}
	}
	before, warm := sent.n.Load(), calls.large
	errs := make(map[string]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(id string) {
		wg.Go(func() {
			got, err := c.ContainerStatus(t.Context(), id)
			if err == nil && (got.PID != 7 || got.PodID != "p" || got.SharedCPUs != "2-3" || got.Recorded.CPUs != "0-3" || got.CgroupsPath == "") {
				err = fmt.Errorf("status is %+v", got)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs[id] = err
			}
		})
	}
	ask("huge")
	for i := range n {
		ask(fmt.Sprint(i))
		ask("small")
	}
	wg.Wait()
	tooLarge := errs["huge"]
	delete(errs, "huge")
	if len(errs) > 0 {
		t.Errorf("%v; want no error", errs)
	}
	if tooLarge == nil {
		t.Fatal("reply of 34 MiB = no error; want one")
	}
	for _, part := range []string{"container huge", fmt.Sprint(len(encoded(t, replies["huge"]))), fmt.Sprint(largeStatus), "reduce environment"} {
		if !strings.Contains(tooLarge.Error(), part) || strings.Contains(tooLarge.Error(), "\n") {
			t.Errorf("%v; want one line with %q", tooLarge, part)
		}
	}
	if got := calls.large - warm; got != n+1 {
		t.Errorf("%d calls for large replies; want %d", got, n+1)
	}
	if limit := smallStatuses*smallStatus + largeStatus; calls.most > limit {
		t.Errorf("the calls in progress may receive %d bytes; want at most %d", calls.most, limit)
	}
	// A first attempt costs 64 KiB at most. A small reply has 130 KiB. Frames have headers.
	if got, limit := sent.n.Load()-before, int64(n*size+2*(n+1)*(64<<10)+n*(130<<10)+1<<20); got > limit {
		t.Errorf("the runtime sent %d bytes; want at most %d for %d replies of %d", got, limit, n, size)
	}
}

// TestLargeStatusWaits checks that a reply that waits for its turn ends with its context, and
// delays no small reply.
func TestLargeStatusWaits(t *testing.T) {
	c, _, _ := serveStatuses(t, map[string]*runtime.ContainerStatusResponse{"large": statusWithEnvironment(t, 1<<20), "small": statusWithEnvironment(t, 64<<10)})
	c.large <- struct{}{} // another large reply
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		_, err := c.ContainerStatus(ctx, "large")
		ended <- err
	}()
	for range 2 * smallStatuses {
		if _, err := c.ContainerStatus(t.Context(), "small"); err != nil {
			t.Error(err)
		}
	}
	cancel(nil)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("%v; want the end of the context", err)
	}
	<-c.large
	if _, err := c.ContainerStatus(t.Context(), "large"); err != nil {
		t.Error(err)
	}
}
