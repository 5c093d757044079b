package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v5"
)

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
)

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

	checkInterval time.Duration // of a test; 0: checkInterval
}

const (
	// The bounds of the growing pause before the runtime is tried again.
	retryFirst, retryLast = 100 * time.Millisecond, 5 * time.Second
	defaultLimit          = 2 * time.Second // timeout of runtimes that do not report one (NRI before 0.7), and NRI's default
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
		err := connect(ctx, o, func() { enter(Connected, nil) })
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

// connect serves one connection to its end and returns why it ended. It calls
// synchronized, at most once, after the runtime has sent all pods and containers.
func connect(ctx context.Context, o Options, synchronized func()) error {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", o.Socket)
	if err != nil {
		return fmt.Errorf("connect to NRI: %w", err)
	}
	s, err := newSession(ctx, conn, o, synchronized)
	if err != nil {
		conn.Close()
		return fmt.Errorf("connect to NRI at %s: %w", o.Socket, err)
	}
	return fmt.Errorf("NRI at %s: %w", o.Socket, s.run())
}
