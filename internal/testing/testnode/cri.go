package testnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Flavor is the runtime that a Runtime behaves like.
type Flavor string

// The two runtimes that cpupoold runs with.
const (
	Containerd Flavor = "containerd"
	CRIO       Flavor = "cri-o"
)

// Tree is the cgroup file system that a Runtime makes its cgroups in. Paths are
// relative to its root.
type Tree interface {
	Mkdir(dir string) error
	Rmdir(dir string) error
	Write(file, value string) error
	ReadFile(file string, limit int) ([]byte, error)
}

// RuntimeConfig says what a Runtime behaves like. The zero value is containerd
// 2 with the systemd driver and no cgroups.
type RuntimeConfig struct {
	Flavor Flavor
	Driver cri.Driver
	Events EventMode
	// NoRuntimeConfig leaves out the RuntimeConfig call (containerd 1.7).
	NoRuntimeConfig bool
	// Tree may be nil: then containers have no cgroups.
	Tree Tree
	// NRI makes the runtime ask plugins, on NRISocket.
	NRI bool
	// NRIRequired are plugins without which no container is created
	// (required_plugins of NRI's default validator).
	NRIRequired []string
	// Units may be nil: then systemd is not told of the resources that containers
	// get, and its next daemon-reload undoes them.
	Units *Units
}

// Runtime is a container runtime without containers: a CRI server on a real
// socket whose pods and containers the test makes and moves along. Each change
// has the effects, in the order, that it has in the runtime it behaves like.
type Runtime struct {
	config RuntimeConfig
	socket string
	server *grpc.Server
	events *events
	faults *faults
	nri    *hooks // nil if NRI is off

	mu         sync.Mutex // guards what follows
	pods       map[string]*pod
	containers map[string]*container
	made       int // ids and PIDs are numbered
}

// StartRuntime starts a runtime that serves until the end of the test.
func StartRuntime(t testing.TB, c RuntimeConfig) *Runtime {
	t.Helper()
	if c.Flavor == "" {
		c.Flavor = Containerd
	}
	if c.Driver == "" {
		c.Driver = cri.Systemd
	}
	// Not t.TempDir: the test's name is in it, and a socket's path must not
	// exceed 107 bytes.
	dir, err := os.MkdirTemp("", "cri")
	if err != nil {
		t.Fatal(err)
	}
	r := &Runtime{
		config:     c,
		socket:     filepath.Join(dir, "r.sock"),
		events:     newEvents(c.Events),
		faults:     newFaults(),
		pods:       make(map[string]*pod),
		containers: make(map[string]*container),
	}
	if c.NRI {
		r.nri = newHooks(r)
	}
	t.Cleanup(func() {
		r.Down()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := r.Up(); err != nil {
		t.Fatal(err)
	}
	return r
}

// Forget drops all pods and containers: the runtime lists none any more, and says nothing.
func (r *Runtime) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.pods)
	clear(r.containers)
}

// Endpoint returns the endpoint to dial.
func (r *Runtime) Endpoint() string { return "unix://" + r.socket }

// version returns the name and version of the runtime.
func (c RuntimeConfig) version() (name, version string) {
	if c.Flavor == CRIO {
		return string(c.Flavor), "1.36.3"
	}
	return string(c.Flavor), "v2.4.2"
}

// Up serves again after Down, with the pods and containers of before.
func (r *Runtime) Up() error {
	if err := r.NRIUp(); err != nil {
		return fmt.Errorf("start runtime: %w", err)
	}
	// There is a moment between bind and listen at which the socket refuses who connects:
	// nobody knows it by then.
	l, err := net.Listen("unix", r.socket+".new")
	if err != nil {
		return fmt.Errorf("start runtime: %w", err)
	}
	if err := os.Rename(r.socket+".new", r.socket); err != nil {
		return fmt.Errorf("start runtime: %w", err)
	}
	r.server = grpc.NewServer(
		grpc.UnaryInterceptor(r.faults.unary),
		grpc.StreamInterceptor(r.faults.stream),
		grpc.MaxSendMsgSize(16<<20))
	runtime.RegisterRuntimeServiceServer(r.server, &service{r: r})
	server := r.server
	go func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			panic(err) // a listener of our own that fails is a bug of the test
		}
	}()
	return nil
}

// Down stops serving, as when the runtime is restarted: calls under way and
// event streams break, containers run on.
func (r *Runtime) Down() {
	_ = os.Remove(r.socket) // Down may be called twice
	r.server.Stop()
	r.NRIDown()
	if r.nri != nil {
		r.nri.forget()
	}
}
