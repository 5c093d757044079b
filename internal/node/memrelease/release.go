// Package memrelease decides when the daemon returns the memory of the start and of busy hours to
// the kernel.
package memrelease

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// The daemon releases memory after a scan. The first release is at least FirstDelay after the first
// listing, another one at least interval after the last release. By default this is every second
// scan. Go itself waits until the heap has doubled, or two minutes.
const (
	FirstDelay = 20 * time.Second
	interval   = 50 * time.Second
)

// A release is worth its garbage collection with MinUnused bytes of unused memory in a heap of at least
// MinHeap bytes. With few containers the heap stays smaller.
const (
	MinUnused = 2 << 20
	MinHeap   = 8 << 20
)

// Release holds the time of the next release.
type Release struct {
	free    func()
	usage   func() Usage
	next    time.Time // the earliest next release; zero before the first listing
	scanned bool      // the current pass scans all cgroups
}

// Usage describes the heap in bytes.
type Usage struct {
	Unused uint64 // the bytes that a release would return, about
	Heap   uint64 // objects, garbage and free memory that the kernel has not got back
}

// New returns a Release of the memory of this process.
func New() Release { return With(debug.FreeOSMemory, Read) }

// With returns a Release that calls other functions.
func With(free func(), usage func() Usage) Release { return Release{free: free, usage: usage} }

// Read returns the usage of this process. Objects since the last collection count as unused.
func Read() Usage {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	free, objects, live := s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64()
	return Usage{Unused: free + objects - min(objects, live), Heap: free + objects}
}

// Start schedules the first release, after the first listing.
func (r *Release) Start(now time.Time) { r.next = now.Add(FirstDelay) }

// NoteScan records that the current pass scans all cgroups.
func (r *Release) NoteScan() { r.scanned = true }

// Due returns after a pass the function that releases memory, or nil. It is due after a scan, with
// the most garbage. A worker calls the function, because a garbage collection takes milliseconds.
func (r *Release) Due(now time.Time) func() {
	scanned := r.scanned
	r.scanned = false
	if !scanned || r.next.IsZero() || now.Before(r.next) {
		return nil
	}
	if u := r.usage(); u.Unused < MinUnused || u.Heap < MinHeap {
		return nil
	}
	r.next = now.Add(interval)
	return r.free
}
