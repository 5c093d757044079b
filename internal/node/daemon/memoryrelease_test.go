package daemon

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/telemetry"
)

// TestMemoryReleaseTimes checks that memory is released after the first full scan that is not at the start,
// and after each second one from then on.
func TestMemoryReleaseTimes(t *testing.T) {
	start := time.Now()
	th := newMemoryRelease()
	th.unused = func() uint64 { return minUnused }
	if th.scanned = true; th.due(start) {
		t.Error("memory is released before all is known")
	}
	th.start(start)
	for i, pass := range []struct {
		at        time.Duration
		look, due bool
	}{
		{0, true, false},
		{19900 * time.Millisecond, true, false},
		{25 * time.Second, false, false},
		{30 * time.Second, true, true},
		{60 * time.Second, true, false},
		{79900 * time.Millisecond, true, false},
		{82 * time.Second, false, false},
		{89 * time.Second, true, true}, // the previous scan was late
		{120 * time.Second, true, false},
		{10 * time.Minute, true, true},
	} {
		th.scanned = pass.look
		if got := th.due(start.Add(pass.at)); got != pass.due {
			t.Errorf("pass %d, after %v: %t, want %t", i, pass.at, got, pass.due)
		}
	}
}

// TestMemoryRelease checks that memory is released after a full scan.
func TestMemoryRelease(t *testing.T) {
	n := newNode(t)
	r := n.start()
	r.quiet()
	given := make(chan struct{}, 8)
	r.inspect(func(l *Loop) {
		l.memoryRelease.free = func() { given <- struct{}{} }
		l.memoryRelease.unused = func() uint64 { return minUnused }
		l.memoryRelease.start(time.Now().Add(time.Hour))
	})
	r.resyncAndWait()
	r.awaitIdle()
	if len(given) != 0 {
		t.Error("memory was released at once")
	}
	r.inspect(func(l *Loop) { l.memoryRelease.next = time.Now() })
	r.resyncAndWait()
	n.Eventually("memory is released", func() bool { return len(given) == 1 })
	r.resyncAndWait()
	r.awaitIdle()
	if len(given) != 1 {
		t.Errorf("memory was released %d times in a moment", len(given))
	}
	r.inspect(func(l *Loop) {
		l.memoryRelease.next = time.Now()
		l.memoryRelease.unused = func() uint64 { return minUnused - 1 }
	})
	r.resyncAndWait()
	r.awaitIdle()
	if len(given) != 1 {
		t.Error("the daemon released memory although little is unused")
	}
}

// TestUnusedMemory checks that the estimate includes garbage, and that a release ends it.
func TestUnusedMemory(t *testing.T) {
	const size = 64 << 20                            // other tests leave less within a moment
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would count the garbage as live
	release := newMemoryRelease()
	release.free()
	if unused := release.unused(); unused > size/2 {
		t.Errorf("%d bytes are unused after a release; want less than %d", unused, size/2)
	}
	garbage := make([]byte, size)
	runtime.KeepAlive(garbage)
	if unused := release.unused(); unused < size-size/8 {
		t.Errorf("%d bytes are unused beside %d bytes of garbage", unused, size)
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
	for _, count := range r.loop.snapshot.Load().Passes {
		n += count
	}
	return n
}
