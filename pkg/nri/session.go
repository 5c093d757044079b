package nri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/containerd/log"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/ttrpc"
	"github.com/sirupsen/logrus"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

var errClosed = errors.New("the runtime closed the connection")

// session is one connection to the runtime, with a stub of its own: a stub that
// is used again may be closed by the late end of the connection before.
type session struct {
	// ctx ends with the connection; its cause is the reason. The contexts of all calls
	// of the stub are children of it.
	ctx  context.Context
	end  context.CancelCauseFunc
	conn *conn
	stub stub.Stub

	// calls is held for each of the runtime's calls, so that they never overlap,
	// also not with calls of the next session.
	calls        sync.Mutex
	configured   bool // Configure has been called
	synchronized bool // Synchronize of the handler has succeeded
	limit        time.Duration
	handler      Handler
	comparer     comparer
	watches      sync.WaitGroup // of the comparer
	keep         func(annotation string) bool
	enter        func(State, error) // called with the lock
}

func newSession(ctx context.Context, c net.Conn, o Options, enter func(State, error)) (*session, error) {
	s := &session{limit: defaultLimit, handler: o.Handler, comparer: comparer{runtime: o.Runtime, interval: cmp.Or(o.checkInterval, checkInterval)}, keep: o.Keep, enter: enter}
	if s.keep == nil {
		s.keep = func(string) bool { return false }
	}
	// ttrpc logs by a logger in the context.
	ctx = log.WithLogger(ctx, logrus.NewEntry(&logrus.Logger{Out: io.Discard}))
	s.ctx, s.end = context.WithCancelCause(ctx)
	s.conn = &conn{Conn: c, ended: s.end, wrote: make(chan struct{})}
	var err error
	s.stub, err = stub.New(s,
		stub.WithConnection(s.conn),
		stub.WithPluginName(Name),
		stub.WithPluginIdx(Index),
		stub.WithLogger(silent{}),
		stub.WithTTRPCOptions(nil, []ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(s.call)}),
	)
	if err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// run serves the connection to its end and returns why it ended.
func (s *session) run() error {
	defer s.conn.Close()
	ran := make(chan error, 1)
	go func() { ran <- s.stub.Run(s.ctx) }()
	select {
	case err := <-ran: // the runtime has refused us
		s.end(err)
	case <-s.ctx.Done():
		s.conn.Close()
		s.release()
		s.end(<-ran) // the reason is there already
	}
	s.calls.Lock() // no call begins a watch any more
	defer s.calls.Unlock()
	s.watches.Wait()
	return context.Cause(s.ctx)
}

// release ends a Start of the stub that waits to be configured. It waits for
// that without a limit, whatever becomes of the connection.
func (s *session) release() {
	select {
	case <-s.conn.wrote:
	default:
		return // not registered yet: that fails without a connection
	}
	s.calls.Lock()
	defer s.calls.Unlock()
	if service, ok := s.stub.(api.PluginService); ok && !s.configured {
		s.configured = true
		// Refused by Configure, since ctx has ended; Start returns the error.
		_, _ = service.Configure(s.ctx, &api.ConfigureRequest{})
	}
}

// wait reports that the runtime has not synchronized the plugin yet.
func (s *session) wait() {
	s.calls.Lock()
	defer s.calls.Unlock()
	if !s.synchronized && s.ctx.Err() == nil {
		s.enter(Waiting, errWaiting)
	}
}

// call is around each of the runtime's calls.
func (s *session) call(ctx context.Context, in ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	s.calls.Lock()
	defer s.calls.Unlock()
	if s.ctx.Err() != nil {
		return nil, context.Cause(s.ctx)
	}
	if info.FullMethod == configureMethod {
		s.configured = true
	}
	ctx, cancel := context.WithTimeout(ctx, s.limit/4*3)
	defer cancel()
	return method(ctx, func(request any) error {
		err := in(request)
		trim(request, s.keep)
		return err
	})
}

// configureMethod is ttrpc's name of Configure.
const configureMethod = "/nri.pkg.api.v1alpha1.Plugin/Configure"

// conn ends the session as soon as its reader meets the end of the connection: while the
// runtime waits for a reply, no other code would notice.
type conn struct {
	net.Conn
	ended context.CancelCauseFunc
	once  sync.Once
	wrote chan struct{} // closed before the first write
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.ended(fmt.Errorf("%w: %w", errClosed, err))
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.once.Do(func() { close(c.wrote) })
	return c.Conn.Write(b)
}

// silent is the stub's logger. State reports all important events.
type silent struct{}

func (silent) Debugf(context.Context, string, ...any) {}
func (silent) Infof(context.Context, string, ...any)  {}
func (silent) Warnf(context.Context, string, ...any)  {}
func (silent) Errorf(context.Context, string, ...any) {}

// Name and Index are the plugin's registration: the runtime calls plugins in
// the order of their indices, and its required_plugins contain the name.
const (
	Name  = "cpupoold"
	Index = "50"
)

// State is the state of the connection to the runtime.
type State int

const (
	// Unknown is the state before the first report. It is never reported.
	Unknown State = iota
	// Absent means that no process listens on the socket: the runtime is stopped, or
	// has NRI switched off.
	Absent
	// Connected means that Handler.Synchronize has succeeded: from now on the
	// runtime sends requests before it acts.
	Connected
	// Lost means that there is no connection, for the reason that comes with it.
	Lost
	// Waiting means that the runtime has not called Handler.Synchronize for 20 s. containerd first
	// completes the requests that it has begun, and begins no others. A stop lasts as long as the grace
	// period of its pod (containerd issue 14083).
	Waiting
)

var errWaiting = errors.New("the runtime first completes earlier requests; containerd creates, starts and stops no container until then")

// Options configures Run. All fields but Keep and Runtime are required.
type Options struct {
	Socket string // path of the runtime's NRI socket
	// Keep reports whether pods need an annotation with this name. The connection drops all
	// other annotations. Nil keeps none.
	Keep    func(annotation string) bool
	Handler Handler // called once at a time, over all connections
	// Runtime lists the pods of the container runtime. The connection ends with
	// ErrOtherRuntime if another runtime serves NRI. Nil: not compared.
	Runtime lister
	// State receives each change of state, with the reason for Absent and Lost. The
	// runtime may be waiting, so it must return at once. It is never called while a
	// method of Handler runs.
	State func(State, error)

	checkInterval, waitLimit time.Duration // of a test; 0: the constants
}

const (
	// The bounds of the growing pause before the runtime is tried again.
	retryFirst, retryLast = 100 * time.Millisecond, 5 * time.Second
	waitLimit             = 20 * time.Second // until Waiting: a start of a pod takes a few seconds
	defaultLimit          = 2 * time.Second  // timeout of runtimes that do not report one (NRI before 0.7), and NRI's default
)

// Run keeps the plugin connected to the runtime until ctx ends, and returns the error
// of ctx. After its return, no method of the Handler runs.
func Run(ctx context.Context, o Options) error {
	state := Unknown
	enter := func(s State, err error) {
		if s != state {
			state = s
			o.State(s, err)
		}
	}
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval, pauses.RandomizationFactor = retryFirst, retryLast, 0
	for {
		began := time.Now()
		err := connect(ctx, o, enter)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			enter(Absent, err)
		} else {
			enter(Lost, err)
		}
		// A connection that is lost again and again after a synchronization
		// must not be retried at full speed.
		if time.Since(began) > retryLast {
			pauses.Reset()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pauses.NextBackOff()):
		}
	}
}

// connect serves one connection to its end and returns why it ended. It enters Connected
// after the runtime has sent all pods and containers.
func connect(ctx context.Context, o Options, enter func(State, error)) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", o.Socket)
	if err != nil {
		return fmt.Errorf("connect to NRI: %w", err)
	}
	s, err := newSession(ctx, conn, o, enter)
	if err != nil {
		conn.Close()
		return fmt.Errorf("connect to NRI at %s: %w", o.Socket, err)
	}
	defer time.AfterFunc(cmp.Or(o.waitLimit, waitLimit), s.wait).Stop()
	return fmt.Errorf("NRI at %s: %w", o.Socket, s.run())
}

// Handler makes the decisions of the plugin. The runtime sends one request at a
// time, and all starts and stops of containers on the node wait for the
// reply: 2 s at most (plugin_request_timeout). Then the runtime goes on without
// the plugin and closes the connection. So methods without a context return at
// once, and methods with a context return well before its end.
type Handler interface {
	// Synchronize receives all existing pods and containers, once for each
	// connection and before any other call.
	Synchronize(ctx context.Context, pods []cri.Pod, containers []cri.Container) error
	// RunPod reports a new pod whose sandbox runs.
	RunPod(p cri.Pod)
	// ResizePod reports the new total of a pod, before the runtime resizes its containers or
	// after. Runtimes with NRI before 0.10 do not report it.
	ResizePod(id string, total cri.Resources)
	// StopPod reports that the pod's sandbox has been stopped, RemovePod that it no
	// longer exists.
	StopPod(id string)
	RemovePod(id string)
	// Create decides about a container that does not exist yet. After an error it is
	// not created, and the kubelet gets the error's text.
	Create(ctx context.Context, p cri.Pod, c cri.Container) (Reply, error)
	// Start is called when the container's cgroup exists and its first process waits
	// there to become the entrypoint. After an error containerd does not start it, but
	// CRI-O does.
	Start(ctx context.Context, id string) error
	// Update is called before each update of a container, including our own. Non-zero
	// fields of the reply replace fields of the request.
	Update(ctx context.Context, id string, asked cri.Resources) (cri.Resources, error)
	// Stop reports that a container has ended, Remove that it no longer exists.
	Stop(id string)
	Remove(id string)
}

// Reply is the answer to Create.
type Reply struct {
	Adjustment Adjustment
	// Updates are made by the runtime before it creates the container. One that
	// fails is skipped and does not affect others.
	Updates []Update
}

// Adjustment changes the OCI spec of a new container. Zero fields change
// no value.
type Adjustment struct {
	CPUs, Mems cpuset.Set
	Shares     uint64 // CFS shares, 2..262144
	// Unlimited lifts the CFS quota. Otherwise Quota, in Period, is the new one, in microseconds.
	Unlimited     bool
	Quota, Period int64
	// Env are environment variables by name; they replace existing variables.
	// With an empty value the variable is set and empty, also where another plugin has set
	// it. NRI offers no removal: it drops the mark for it, and the container keeps the
	// variable (nri 0.12.5, pkg/adaptation/result.go, adjustEnv).
	Env map[string]string
}

// Update is another container's new cpuset.
type Update struct {
	Container string
	CPUs      cpuset.Set
}
