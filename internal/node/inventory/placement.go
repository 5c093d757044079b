package inventory

import (
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Start is what is known of a container's first placement.
type Start struct {
	Way     telemetry.Way // empty until something better than an event leads to it
	Seen    bool          // its cgroup has been read
	Exposed bool          // and was outside its pool; it has not been inside yet
	Making  bool          // and had its CPUs on record only, since it was being made
}

// FoundBy says how the daemon came to know of a container that it has not placed yet.
func (e *Container) FoundBy(way telemetry.Way) {
	if !e.Sighting.Seen && e.Sighting.Way == "" && e.Container.State != cri.Exited {
		e.Sighting.Way = way
	}
}
