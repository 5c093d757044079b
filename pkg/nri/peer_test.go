package nri_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// peer is the runtime's end of one connection, for actions that the library lacks.
type peer struct {
	conn       net.Conn
	plugin     api.PluginService
	registered chan *api.RegisterPluginRequest
}

func (p *peer) RegisterPlugin(_ context.Context, req *api.RegisterPluginRequest) (*api.Empty, error) {
	p.registered <- req
	return &api.Empty{}, nil
}

func (p *peer) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return &api.UpdateContainersResponse{}, nil
}

// accept waits for a plugin to connect and to register.
func accept(t *testing.T, l net.Listener) *peer {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	p := &peer{conn: conn, registered: make(chan *api.RegisterPluginRequest, 1)}
	mux := multiplex.Multiplex(conn, multiplex.WithBlockedRead())
	to, err := mux.Open(multiplex.PluginServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	from, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		t.Fatal(err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		t.Fatal(err)
	}
	api.RegisterRuntimeService(server, p)
	go func() { _ = server.Serve(context.Background(), from) }() // to the connection's end
	t.Cleanup(func() { server.Close() })
	p.plugin = api.NewPluginClient(ttrpc.NewClient(to))
	mux.Unblock()
	req := <-p.registered
	if req.PluginName != nri.Name || req.PluginIdx != nri.Index {
		t.Errorf("registered as %s-%s; want %s-%s", req.PluginIdx, req.PluginName, nri.Index, nri.Name)
	}
	return p
}

func listen(t *testing.T) (socket string, l net.Listener) {
	t.Helper()
	socket = socketPath(t)
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return socket, l
}

// The runtime may end between the plugin's registration and its answer to it, or stay
// silent. Neither delays the next connection, or the end.
func TestNeverConfigured(t *testing.T) {
	socket, l := listen(t)
	p := run(t, socket, &recorder{})
	accept(t, l).conn.Close()
	if c := p.await(nri.Lost); c.err == nil {
		t.Error("Lost has no error; want one")
	}
	accept(t, l)
	p.end()
}

// An old runtime refuses a plugin that subscribes to an unknown event. These are the
// numbers of NRI 0.6 (containerd 1.7, CRI-O 1.30). Such a runtime does not report its
// timeout, and calls all events that cannot be refused StateChange.
func TestOldRuntime(t *testing.T) {
	const runPod, stopPod, removePod, create, start, update, stop, remove = 1, 2, 3, 4, 6, 8, 10, 11
	want := int32(0)
	for _, n := range []int{runPod, stopPod, removePod, create, start, update, stop, remove} {
		want |= 1 << (n - 1)
	}
	socket, l := listen(t)
	r := &recorder{}
	r.create = func(ctx context.Context, _ cri.Pod, _ cri.Container) (nri.Reply, error) {
		if end, ok := ctx.Deadline(); !ok || time.Until(end) < 0 || time.Until(end) > 1500*time.Millisecond {
			t.Errorf("deadline %v, %v; want one within 1.5 s", end, ok)
		}
		return nri.Reply{}, nil
	}
	p := run(t, socket, r)
	rt := accept(t, l)
	rpl, err := rt.plugin.Configure(t.Context(), &api.ConfigureRequest{RuntimeName: "containerd", RuntimeVersion: "v1.7.0"})
	if err != nil || rpl.Events != want {
		t.Fatalf("Configure = %v, %v; want the events 0x%x", rpl, err, want)
	}
	if _, err := rt.plugin.Synchronize(t.Context(), &api.SynchronizeRequest{}); err != nil {
		t.Fatal(err)
	}
	p.await(nri.Connected)
	for _, e := range []api.Event{runPod, stopPod, removePod, start, remove} {
		if _, err := rt.plugin.StateChange(t.Context(), &api.StateChangeEvent{Event: e, Pod: onePod, Container: oneContainer()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := rt.plugin.CreateContainer(t.Context(), &api.CreateContainerRequest{}); err != nil {
		t.Fatal(err)
	}
	if got, want := r.all(), "synchronize 0 0\nrun p1\nstop pod p1\nremove pod p1\nstart c1\nremove c1\ncreate  in "; got != want {
		t.Errorf("calls %q; want %q", got, want)
	}
}
