package units

import (
	"context"
	"slices"
	"sync"

	"github.com/cpupoold/cpupoold/internal/node/actor"
)

// watched holds the units of the configuration for the goroutine that watches them.
type watched struct {
	mu      sync.Mutex // guards the fields below
	names   []string
	changed func() // ends the watch of the earlier names
}

func (w *watched) set(names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Equal(w.names, names) {
		return
	}
	w.names = names
	if w.changed != nil {
		w.changed()
	}
}

// begin returns the names to watch, and a context that ends when the names change.
func (w *watched) begin(ctx context.Context) ([]string, context.Context, context.CancelFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	w.changed = cancel
	return w.names, ctx, cancel
}

// Watch calls woken when units of the configuration start and stop, until ctx is done. The name
// is empty if systemd names no unit. Watch calls lost when systemd reports no changes, and tries
// again. It runs in a goroutine of its own.
func (u *Units) Watch(ctx context.Context, woken func(name string), lost func(error)) {
	if u.Host.Units == nil {
		return
	}
	watch := func() error {
		for ctx.Err() == nil {
			names, current, cancel := u.watched.begin(ctx)
			var err error
			if len(names) == 0 {
				<-current.Done()
			} else {
				err = u.Host.Units.WatchUnits(current, names, woken)
			}
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	}
	actor.KeepTrying(ctx, watch, lost)
}
