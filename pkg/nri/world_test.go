package nri_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"

	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
)

// waitTimeout bounds the wait for an expected event.
const waitTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	logrus.SetLevel(logrus.PanicLevel) // the runtime's half; ours logs nothing
	os.Exit(m.Run())
}

// side is the runtime's half of NRI: the library that containerd and CRI-O use.
type side struct {
	*adaptation.Adaptation
	mu      sync.Mutex
	clients []*ttrpc.Client
}

// start makes a runtime listen on the socket. It has these pods and containers.
func start(t *testing.T, socket string, pods []*api.PodSandbox, containers []*api.Container) *side {
	t.Helper()
	s := &side{}
	sync := func(ctx context.Context, tell adaptation.SyncCB) error {
		_, err := tell(ctx, pods, containers)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	keep := func(c *ttrpc.Client) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.clients = append(s.clients, c)
	}
	var err error
	s.Adaptation, err = adaptation.New("test", "v0.0.0", sync, update,
		adaptation.WithSocketPath(socket),
		adaptation.WithPluginPath(filepath.Join(t.TempDir(), "none")),
		adaptation.WithPluginConfigPath(filepath.Join(t.TempDir(), "none")),
		adaptation.WithTTRPCOptions([]ttrpc.ClientOpts{keep}, nil))
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.die)
	return s
}

// taken waits until the runtime calls the plugin that has become Connected. The runtime
// lists a plugin a moment after its answer, and handles no request until then.
func (s *side) taken() { s.BlockPluginSync().Unblock() }

// hangUp closes the connections to all plugins.
func (s *side) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		c.Close()
	}
	s.clients = nil
}

// die is the runtime's end.
func (s *side) die() {
	s.Stop()
	s.hangUp()
}

// recorder is a Handler that records its requests, and answers as the test sets it.
type recorder struct {
	mu    sync.Mutex
	heard []string
	pods  []cri.Pod

	synchronize func(context.Context, []cri.Pod, []cri.Container) error
	create      func(context.Context, cri.Pod, cri.Container) (nri.Reply, error)
	startCt     func(context.Context, string) error
	update      func(context.Context, string, cri.Resources) (cri.Resources, error)
}

func (r *recorder) hear(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = append(r.heard, fmt.Sprintf(format, args...))
}

func (r *recorder) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.heard, "\n")
}

func (r *recorder) Synchronize(ctx context.Context, pods []cri.Pod, cts []cri.Container) error {
	r.hear("synchronize %d %d", len(pods), len(cts))
	if r.synchronize != nil {
		return r.synchronize(ctx, pods, cts)
	}
	return nil
}

func (r *recorder) RunPod(p cri.Pod) {
	r.hear("run %s", p.ID)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pods = append(r.pods, p)
}
func (r *recorder) StopPod(id string)   { r.hear("stop pod %s", id) }
func (r *recorder) RemovePod(id string) { r.hear("remove pod %s", id) }

func (r *recorder) Create(ctx context.Context, p cri.Pod, c cri.Container) (nri.Reply, error) {
	r.hear("create %s in %s", c.ID, p.ID)
	if r.create != nil {
		return r.create(ctx, p, c)
	}
	return nri.Reply{}, nil
}

func (r *recorder) Start(ctx context.Context, id string) error {
	r.hear("start %s", id)
	if r.startCt != nil {
		return r.startCt(ctx, id)
	}
	return nil
}

func (r *recorder) Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error) {
	r.hear("update %s %+v", id, asked)
	if r.update != nil {
		return r.update(ctx, id, asked)
	}
	return cri.Resources{}, nil
}
func (r *recorder) ResizePod(id string, total cri.Resources) { r.hear("resize pod %s %+v", id, total) }
func (r *recorder) Stop(id string)                           { r.hear("stop %s", id) }
func (r *recorder) Remove(id string)                         { r.hear("remove %s", id) }

// plugin is a running Run.
type plugin struct {
	t      *testing.T
	states chan change
	stop   context.CancelFunc
	done   chan error
}

type change struct {
	nri.State
	err error
}

// keepsA selects annotation a.
func keepsA(key string) bool { return key == "a" }

// run runs the plugin until the test ends or stop is called.
func run(t *testing.T, socket string, h nri.Handler) *plugin {
	t.Helper()
	return runWith(t, socket, h, func(*nri.Options) {})
}

// runWithPods runs the plugin with a container runtime that has pods.
func runWithPods(t *testing.T, socket string, h nri.Handler, own func() []cri.Pod) *plugin {
	t.Helper()
	return runWith(t, socket, h, func(o *nri.Options) {
		o.Runtime = machine(own)
		o.CheckEvery(50 * time.Millisecond)
	})
}

// runWith is run with more options.
func runWith(t *testing.T, socket string, h nri.Handler, set func(*nri.Options)) *plugin {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	p := &plugin{t: t, states: make(chan change, 1000), stop: cancel, done: make(chan error, 1)}
	go func() {
		o := nri.Options{Socket: socket, Handler: h, Keep: keepsA, State: func(s nri.State, err error) { p.states <- change{s, err} }}
		set(&o)
		p.done <- nri.Run(ctx, o)
	}()
	t.Cleanup(p.end)
	return p
}

// end ends Run and waits for it.
func (p *plugin) end() {
	p.stop()
	select {
	case err := <-p.done:
		p.done <- err
		if !errors.Is(err, context.Canceled) {
			p.t.Errorf("Run = %v; want the context's error", err)
		}
	case <-time.After(waitTimeout):
		p.t.Error("Run does not return after the end of its context")
	}
}

// await waits until the state is reached.
func (p *plugin) await(want nri.State) change {
	p.t.Helper()
	limit := time.After(waitTimeout)
	for {
		select {
		case c := <-p.states:
			if c.State == want {
				return c
			}
		case <-limit:
			p.t.Fatalf("the plugin does not become %v", want)
		}
	}
}

// socketPath returns a path for a socket that does not exist yet.
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nri") // t.TempDir may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "nri.sock")
}

// machine is a container runtime with the pods that it returns.
type machine func() []cri.Pod

func (m machine) List(context.Context) ([]cri.Pod, []cri.Container, error) { return m(), nil, nil }
