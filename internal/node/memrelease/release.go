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

// MinUnused is the unused memory, in bytes, that is worth a garbage collection.
const MinUnused = 2 << 20

// Release holds the time of the next release.
type Release struct {
	free    func()
	unused  func() uint64 // bytes that a release would return, about
	next    time.Time     // the earliest next release; zero before the first listing
	scanned bool          // the current pass scans all cgroups
}

// New returns a Release of the memory of this process.
func New() Release { return With(debug.FreeOSMemory, Unused) }

// With returns a Release that calls other functions.
func With(free func(), unused func() uint64) Release { return Release{free: free, unused: unused} }

// Unused returns the size of free memory and of objects since the last collection, in bytes.
func Unused() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64() - min(s[1].Value.Uint64(), s[2].Value.Uint64())
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
	if !scanned || r.next.IsZero() || now.Before(r.next) || r.unused() < MinUnused {
		return nil
	}
	r.next = now.Add(interval)
	return r.free
}
