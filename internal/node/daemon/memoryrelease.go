package daemon

import (
	"context"
	"runtime/debug"
	"time"
)

// Memory is given back after the first look that is so long after all that runs was taken over,
// and so long after it was given back last: with resyncPeriod's default the first, and then each
// second. Go itself would wait for as much garbage as lives, or two minutes.
const (
	firstReleaseDelay = 20 * time.Second
	releaseInterval   = 50 * time.Second
)

// memoryRelease gives memory that nothing lives in back to the kernel: what a start or a busy hour
// has taken would stay else (docs/performance.md).
type memoryRelease struct {
	free    func()
	next    time.Time // not before; zero until all is taken over
	scanned bool      // the pass that is made now looks at all cgroups
}

func newMemoryRelease() memoryRelease { return memoryRelease{free: debug.FreeOSMemory} }

// start says that all that runs has been taken over.
func (t *memoryRelease) start(now time.Time) { t.next = now.Add(firstReleaseDelay) }

// due says, after a pass, that memory is to be given back: after a look, which leaves most behind.
func (t *memoryRelease) due(now time.Time) bool {
	looked := t.scanned
	t.scanned = false
	if !looked || t.next.IsZero() || now.Before(t.next) {
		return false
	}
	t.next = now.Add(releaseInterval)
	return true
}

// releaseMemory gives memory back after a pass, if that is due. A collection takes milliseconds:
// the owner does not wait for it.
func (l *Loop) releaseMemory(now time.Time) {
	if !l.memoryRelease.due(now) {
		return
	}
	giveBack := l.memoryRelease.free
	l.workers.Queries.Submit("memory", func(context.Context) event {
		giveBack()
		return nil
	})
}
