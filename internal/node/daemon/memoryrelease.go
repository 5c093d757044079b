package daemon

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The daemon releases memory after a scan. The first release is at least firstReleaseDelay after
// the first listing, another one at least releaseInterval after the last release. By default this
// is every second scan. Go itself waits until the heap has doubled, or two minutes.
const (
	firstReleaseDelay = 20 * time.Second
	releaseInterval   = 50 * time.Second
)

// minUnused is the unused memory, in bytes, that is worth a garbage collection.
const minUnused = 2 << 20

// memoryRelease returns the memory of the start and of busy hours to the kernel.
type memoryRelease struct {
	free    func()
	unused  func() uint64 // bytes that a release would return, about
	next    time.Time     // the earliest next release; zero before the first listing
	scanned bool          // the current pass scans all cgroups
}

func newMemoryRelease() memoryRelease {
	return memoryRelease{free: debug.FreeOSMemory, unused: unusedMemory}
}

// unusedMemory returns the size of free memory and of objects since the last collection, in bytes.
func unusedMemory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64() - min(s[1].Value.Uint64(), s[2].Value.Uint64())
}

// start schedules the first release, after the first listing.
func (m *memoryRelease) start(now time.Time) { m.next = now.Add(firstReleaseDelay) }

// due reports after a pass whether memory must be released: after a scan, with the most garbage.
func (m *memoryRelease) due(now time.Time) bool {
	scanned := m.scanned
	m.scanned = false
	if !scanned || m.next.IsZero() || now.Before(m.next) || m.unused() < minUnused {
		return false
	}
	m.next = now.Add(releaseInterval)
	return true
}

// releaseMemory releases memory after a pass, if that is due. A worker does it, because a garbage
// collection takes milliseconds.
func (l *Loop) releaseMemory(now time.Time) {
	if !l.memoryRelease.due(now) {
		return
	}
	free := l.memoryRelease.free
	l.workers.Queries.Submit("memory", func(context.Context) event {
		free()
		return nil
	})
}
