package testnode

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Flavor names the runtime that a Runtime imitates.
type Flavor string

// The supported runtimes.
const (
	Containerd Flavor = "containerd"
	CRIO       Flavor = "cri-o"
)

// Tree is the cgroup file system for the cgroups of a Runtime. Paths are relative to its root.
type Tree interface {
	Mkdir(dir string) error
	Rmdir(dir string) error
	Write(file, value string) error
	ReadFile(file string, limit int) ([]byte, error)
}

// RuntimeConfig configures a Runtime. The zero value imitates containerd 2 with the systemd
// driver and without cgroups.
type RuntimeConfig struct {
	Flavor Flavor
	Driver cri.Driver
	Events EventMode
	// Crun makes a cgroup "container" in each scope for the process, and each update writes the files
	// of both (crun, cgroup-systemd.c).
	Crun bool
	// NoRuntimeConfig removes the RuntimeConfig call (containerd 1.7).
	NoRuntimeConfig bool
	// ListStreams adds the calls that stream lists (KEP-5825).
	ListStreams bool
	// Tree holds the cgroups; with nil, containers have no cgroups.
	Tree Tree
	// NRI enables NRI plugins, on NRISocket.
	NRI bool
	// NRIRequired names plugins; no container is created while one is missing (required_plugins
	// of NRI's default validator).
	NRIRequired []string
	// NRITimeout is the maximum time of a request to a plugin, for all runtimes of the process.
	// Zero leaves it as it is: two seconds at first, as in the runtimes.
	NRITimeout time.Duration
	// Units receives the resources of containers, as systemd does. With nil, the next
	// daemon-reload reverts them.
	Units *Units
}

// Runtime is a fake container runtime without processes: a CRI server on a real socket. The test
// creates, starts and removes its pods and containers. Each change has the effects of the
// imitated runtime, in the same order.
type Runtime struct {
	config RuntimeConfig
	socket string
	server *grpc.Server
	events *events
	faults *faults
	nri    *hooks // nil if NRI is off

	updates sync.RWMutex // read-locked by updates in progress

	mu         sync.Mutex // guards the fields below
	pods       map[string]*pod
	containers map[string]*container
	lastNumber int // number of the last ID and PID
	onMoment   func(Moment)
}

// AwaitUpdates waits until no update of a container is in progress.
func (r *Runtime) AwaitUpdates() {
	r.updates.Lock()
	r.updates.Unlock() //nolint:staticcheck // it only waits
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
	// Not t.TempDir: it contains the test's name, and the path of a socket must not exceed 107
	// bytes.
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

// Forget drops all pods and containers without an event.
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

// maxMessage returns the default limit for a reply: defaults.DefaultMaxSendMsgSize of containerd
// 2.4, grpc_max_send_msg_size of CRI-O 1.36.
func (c RuntimeConfig) maxMessage() int {
	if c.Flavor == CRIO {
		return 80 << 20
	}
	return 16 << 20
}

// Up serves again after Down. The pods and containers are unchanged.
func (r *Runtime) Up() error {
	if err := r.NRIUp(); err != nil {
		return fmt.Errorf("start runtime: %w", err)
	}
	// A temporary name, because between bind and listen a socket refuses connections.
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
		grpc.MaxSendMsgSize(r.config.maxMessage()))
	runtime.RegisterRuntimeServiceServer(r.server, &service{r: r})
	server := r.server
	go func() {
		if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			panic(err) // the listener failed without a Down: a bug of the test
		}
	}()
	return nil
}

// Down stops serving, as at a restart of the runtime: calls in progress and event streams fail,
// containers keep running.
func (r *Runtime) Down() {
	_ = os.Remove(r.socket) // Down may be called twice
	r.server.Stop()
	r.NRIDown()
	if r.nri != nil {
		r.nri.dropStages()
	}
}
