package daemon

import (
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/memrelease"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// TestMemoryRelease checks that memory is released after a full scan.
func TestMemoryRelease(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	given := make(chan struct{}, 8)
	r.inspect(func(l *Loop) {
		l.memory = memrelease.With(func() { given <- struct{}{} }, func() memrelease.Usage {
			return memrelease.Usage{Unused: memrelease.MinUnused, Heap: memrelease.MinHeap}
		})
		l.memory.Start(l.now().Add(time.Hour))
	})
	r.resyncAndWait()
	r.awaitIdle()
	if len(given) != 0 {
		t.Error("memory was released at once")
	}
	r.inspect(func(l *Loop) { l.memory.Start(l.now().Add(-memrelease.FirstDelay)) })
	r.resyncAndWait()
	n.Eventually("memory is released", func() bool { return len(given) == 1 })
	r.resyncAndWait()
	r.awaitIdle()
	if len(given) != 1 {
		t.Errorf("memory was released %d times in a moment; want 1", len(given))
	}
}

// resyncAndWait makes the daemon scan all cgroups, as the resync does.
func (r *running) resyncAndWait() {
	r.T.Helper()
	before := r.passes()
	r.resync()
	r.view("resync", func(*telemetry.View) bool { return r.passes() > before })
}

// passes returns the number of full passes that were published.
func (r *running) passes() (n uint64) {
	for _, count := range r.loop.publisher.Metrics().Passes {
		n += count
	}
	return n
}
