package telemetry

// Way is what led to the first placement of a container.
type Way string

// The ways, the fastest first. WayNRI and WaySpec: its CPUs were on record before its
// cgroup was there. WayInotify: its cgroup was seen to appear. WayEvent: the runtime
// has told that it runs. WayResync: it was in a list.
const (
	WayNRI     Way = "nri"
	WaySpec    Way = "spec"
	WayInotify Way = "inotify"
	WayEvent   Way = "event"
	WayResync  Way = "resync"
)

// Placements are times from the appearance of containers' cgroups until the kernel
// confirmed that they were in their pool: Elapsed, and the CPU time that they had used
// by then, Used: what they did outside their pool is no more than that. Both are 0 for
// those that were inside when they were first looked at.
type Placements struct {
	Elapsed, Used Histogram
}

// NewPlacements has no observations.
func NewPlacements() Placements {
	return Placements{Elapsed: NewHistogram(), Used: NewHistogram()}
}

// placements emits all ways, also those that nobody has come by: a rate over a series
// that begins with a late container does not see that one.
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
