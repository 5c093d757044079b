package nri_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/api"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// A runtime that does not run yet is found when it starts, and again after each
// restart; each time it reports all containers.
func TestReconnect(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	p := run(t, socket, r)
	if c := p.await(nri.Absent); c.err == nil || !strings.Contains(c.err.Error(), socket) {
		t.Errorf("absent with the error %v; want one that names the socket", c.err)
	}
	for range 2 {
		rt := start(t, socket, nil, []*api.Container{oneContainer()})
		p.await(nri.Connected)
		rt.taken()
		if err := rt.RunPodSandbox(t.Context(), &api.RunPodSandboxRequest{Pod: onePod}); err != nil {
			t.Fatal(err)
		}
		rt.die()
		if c := p.await(nri.Lost); c.err == nil {
			t.Error("Lost has no error; want one")
		}
		p.await(nri.Absent)
	}
	if got, want := r.all(), "synchronize 0 1\nrun p1\nsynchronize 0 1\nrun p1"; got != want {
		t.Errorf("calls %q; want %q", got, want)
	}
}

// While the runtime completes another request, it does not synchronize the plugin. The plugin
// reports that, and then the connection.
func TestWaiting(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	rt := start(t, socket, nil, nil)
	request := rt.BlockPluginSync() // as a stop with a long grace period
	p := runWith(t, socket, r, func(o *nri.Options) { o.WaitFor(10 * time.Millisecond) })
	if c := p.await(nri.Waiting); c.err == nil || !strings.Contains(c.err.Error(), "completes earlier requests") {
		t.Errorf("waiting with the error %v; want one that names the requests", c.err)
	}
	request.Unblock()
	p.await(nri.Connected)
	if got, want := r.all(), "synchronize 0 0"; got != want {
		t.Errorf("calls %q; want %q", got, want)
	}
}

// A connection that ends in the middle of a request ends the request's context. The
// runtime goes on without an answer, and calls the plugin again after it has connected
// again. No two requests are ever open at once.
func TestHungUp(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	rt := start(t, socket, nil, nil)
	asked := make(chan struct{}, 1)
	var open atomic.Int32
	one := func() (done func()) {
		if n := open.Add(1); n != 1 {
			t.Errorf("requests at once = %d; want 1", n)
		}
		return func() { open.Add(-1) }
	}
	r.synchronize = func(context.Context, []cri.Pod, []cri.Container) error {
		defer one()()
		return nil
	}
	r.create = func(ctx context.Context, _ cri.Pod, _ cri.Container) (nri.Reply, error) {
		defer one()()
		asked <- struct{}{}
		<-ctx.Done()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Error("the request ended with its deadline; want its end with the connection")
		}
		return nri.Reply{}, ctx.Err()
	}
	p := run(t, socket, r)
	for range 5 {
		p.await(nri.Connected)
		rt.taken()
		created := make(chan error, 1)
		go func() {
			_, err := rt.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()})
			created <- err
		}()
		<-asked
		rt.hangUp()
		if err := <-created; err != nil {
			t.Errorf("CreateContainer = %v; want it to go on without the plugin", err)
		}
		p.await(nri.Lost)
	}
}

// The end of Run's context ends an open request, too. Whether the runtime still gets
// the answer is open.
func TestEndInQuestion(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	rt := start(t, socket, nil, nil)
	asked, returned := make(chan struct{}), make(chan struct{})
	r.create = func(ctx context.Context, _ cri.Pod, _ cri.Container) (nri.Reply, error) {
		close(asked)
		<-ctx.Done()
		close(returned)
		return nri.Reply{}, ctx.Err()
	}
	p := run(t, socket, r)
	p.await(nri.Connected)
	rt.taken()
	created := make(chan struct{})
	go func() {
		defer close(created)
		_, _ = rt.CreateContainer(context.Background(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()})
	}()
	<-asked
	p.end()
	select {
	case <-returned:
	default:
		t.Error("Run returned during a request; want it to wait")
	}
	<-created
}

// Questions come with a deadline that leaves time for the answer's way.
func TestDeadline(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	rt := start(t, socket, nil, nil)
	check := func(what string, ctx context.Context) {
		end, ok := ctx.Deadline()
		if left := time.Until(end); !ok || left > 1500*time.Millisecond {
			t.Errorf("%s: %v left, %v; want at most three quarters of 2 s", what, left, ok)
		}
	}
	r.synchronize = func(ctx context.Context, _ []cri.Pod, _ []cri.Container) error {
		check("Synchronize", ctx)
		return nil
	}
	r.create = func(ctx context.Context, _ cri.Pod, _ cri.Container) (nri.Reply, error) {
		check("Create", ctx)
		return nri.Reply{}, nil
	}
	r.startCt = func(ctx context.Context, _ string) error {
		check("Start", ctx)
		<-ctx.Done() // its end comes before the runtime's timeout
		return ctx.Err()
	}
	r.update = func(ctx context.Context, _ string, _ cri.Resources) (cri.Resources, error) {
		check("Update", ctx)
		return cri.Resources{}, nil
	}
	run(t, socket, r).await(nri.Connected)
	rt.taken()
	if _, err := rt.CreateContainer(t.Context(), &api.CreateContainerRequest{Pod: onePod, Container: oneContainer()}); err != nil {
		t.Error(err)
	}
	if err := rt.StartContainer(t.Context(), &api.StartContainerRequest{Pod: onePod, Container: oneContainer()}); err == nil {
		t.Error("StartContainer after the handler's deadline = no error; want one")
	}
	if _, err := rt.UpdateContainer(t.Context(), &api.UpdateContainerRequest{Pod: onePod, Container: oneContainer()}); err != nil {
		t.Error(err)
	}
	if got := strings.Count(r.all(), "synchronize"); got != 1 {
		t.Errorf("connected %d times; want the connection to last", got)
	}
}

// A handler that fails in Synchronize is not connected, and gets all containers again.
func TestSynchronizeFails(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	start(t, socket, nil, nil)
	broken, fails := errors.New("journal on fire"), true
	r.synchronize = func(context.Context, []cri.Pod, []cri.Container) error {
		if fails {
			fails = false
			return broken
		}
		return nil
	}
	p := run(t, socket, r)
	if c := p.await(nri.Lost); !errors.Is(c.err, broken) {
		t.Errorf("lost: %v; want %v", c.err, broken)
	}
	p.await(nri.Connected)
}

// TestOtherRuntime checks that the handler gets nothing of a runtime without the pods, and that the
// plugin tries again until the socket is of the right one.
func TestOtherRuntime(t *testing.T) {
	socket, r := socketPath(t), &recorder{}
	other := start(t, socket, nil, []*api.Container{oneContainer()})
	var refused atomic.Bool
	p := runWithPods(t, socket, r, func() []cri.Pod {
		if refused.Load() {
			return nil // its pods have ended
		}
		return []cri.Pod{{ID: "another", Ready: true}}
	})
	if c := p.await(nri.Lost); !errors.Is(c.err, nri.ErrOtherRuntime) || !strings.Contains(c.err.Error(), socket) {
		t.Errorf("lost: %v; want %v, with the socket", c.err, nri.ErrOtherRuntime)
	}
	if got := r.all(); got != "" {
		t.Errorf("calls %q; want none", got)
	}
	refused.Store(true)
	p.await(nri.Connected)
	other.die()
}

// TestOtherRuntimeAtBoot checks a connection that begins before the first pod. It ends when the
// container runtime has a pod that NRI has not reported.
func TestOtherRuntimeAtBoot(t *testing.T) {
	t.Parallel()
	socket := socketPath(t)
	start(t, socket, nil, nil)
	var booted atomic.Bool
	p := runWithPods(t, socket, &recorder{}, func() []cri.Pod {
		if booted.Load() {
			return []cri.Pod{{ID: "another", Ready: true}}
		}
		return nil
	})
	p.await(nri.Connected)
	booted.Store(true)
	if c := p.await(nri.Lost); !errors.Is(c.err, nri.ErrOtherRuntime) {
		t.Errorf("lost: %v; want %v", c.err, nri.ErrOtherRuntime)
	}
}

// A panic of the handler ends the process: a daemon that has lost its mind must
// not answer for it.
func TestPanic(t *testing.T) {
	const key = "NRI_TEST_PANIC"
	if os.Getenv(key) != "" {
		socket, r := socketPath(t), &recorder{}
		r.synchronize = func(context.Context, []cri.Pod, []cri.Container) error { panic("bug") }
		start(t, socket, nil, nil)
		run(t, socket, r).await(nri.Connected)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPanic$")
	cmd.Env = append(os.Environ(), key+"=1")
	out, err := cmd.CombinedOutput()
	if _, exited := errors.AsType[*exec.ExitError](err); !exited || !strings.Contains(string(out), "panic: bug") {
		t.Errorf("end of the process = %v; want the panic:\n%s", err, out)
	}
}
