package claimdriver

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/inspect"
)

const (
	pollWait  = 9 * time.Second        // until the daemon answers without an event
	pollPause = 500 * time.Millisecond // between answers, so that many events are one answer
	pollRetry = 2 * time.Second        // after an error
	// silence is the time without an answer after which the daemon is away.
	silence = 30 * time.Second
)

// node is the state of the node as the daemon last reported it.
type node struct {
	claims   *inspect.Claims // nil before the first answer
	answered time.Time       // zero before the first answer
}

// isAway reports whether the daemon has not answered for a while.
func (n node) isAway() bool { return time.Since(n.answered) > silence }

// watcher follows the claims and the devices of the daemon.
type watcher struct {
	daemon *control.Client
	log    *slog.Logger
	tell   func(*inspect.Claims) // is called for each answer
	tried  atomic.Int64          // time of the last request, in nanoseconds since 1970

	mu      sync.Mutex
	last    node
	changed chan struct{} // closed at the next answer or error
}

// now returns the state, and a channel that is closed when it may have changed.
func (w *watcher) now() (node, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.changed
}

func (w *watcher) run(ctx context.Context) {
	connected := true // a daemon that is away from the start is an error, too
	for ctx.Err() == nil {
		w.tried.Store(time.Now().UnixNano())
		last, _ := w.now()
		var after uint64
		wait := control.Wait{}
		if last.claims != nil {
			after, wait = last.claims.Sequence, control.Wait{For: pollWait, Daemon: last.claims.Started}
		}
		claims, err := w.daemon.Claims(ctx, after, wait)
		pause := pollPause
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			pause = pollRetry
			if connected {
				w.log.Warn("the daemon does not answer; claims cannot be prepared", "error", err)
			}
		} else {
			if !connected {
				w.log.Info("the daemon answers again")
			}
			last = node{claims, time.Now()}
			w.tell(claims)
		}
		connected = err == nil
		w.mu.Lock()
		w.last = last
		close(w.changed)
		w.changed = make(chan struct{})
		w.mu.Unlock()
		sleep(ctx, pause)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
