package telemetry

// Way is the event that led to the first placement of a container.
type Way string

// Ways, the fastest first.
const (
	// WayNRI: the reply to the runtime's request contained its CPUs.
	WayNRI Way = "nri"
	// WaySpec: the runtime recorded its CPUs before its cgroup existed.
	WaySpec Way = "spec"
	// WayInotify: its new cgroup was reported.
	WayInotify Way = "inotify"
	// WayEvent: the runtime reported it.
	WayEvent Way = "event"
	// WayResync: a list contained it.
	WayResync Way = "resync"
)

// Placements holds, for each new container, the time and the CPU time until its first
// placement. Elapsed is the time from the creation of its cgroup until the kernel confirmed
// that the container is in its pool. Used is the CPU time of the container by then, an upper
// bound of its CPU time outside its pool. Both are 0 if the container was in its pool at the
// first reading.
type Placements struct {
	Elapsed, Used Histogram
}

// NewPlacements returns Placements without observations.
func NewPlacements() Placements {
	return Placements{Elapsed: NewHistogram(), Used: NewHistogram()}
}

// placements emits all ways: a rate misses the observation with which a series begins.
func (e emitter) placements(v *View) {
	for _, way := range []Way{WayNRI, WaySpec, WayInotify, WayEvent, WayResync} {
		p, known := v.Placements[way]
		if !known {
			p = NewPlacements()
		}
		e.histogram(placementTime, p.Elapsed, string(way))
		e.histogram(placementUsage, p.Used, string(way))
	}
}
