package inventory

import (
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// placement is the state of a container's first placement, for the measurement of its
// exposure.
type placement struct {
	// way is how the daemon learned of the container, empty for an event of the runtime.
	way telemetry.Way
	// seen is true after the first reading of the cgroup.
	seen bool
	// exposed is true while the cgroup is outside its pool.
	exposed bool
	// making is true if the cgroup had no CPUs although the runtime had recorded them.
	making bool
}

// FoundBy records how the daemon learned of a container that it has not placed yet. The
// first way counts.
func (e *Container) FoundBy(way telemetry.Way) {
	if !e.placement.seen && e.placement.way == "" && e.Container.State != cri.Exited {
		e.placement.way = way
	}
}

// Way returns how the daemon learned of the container. It is empty if an event of the
// runtime was the first sign.
func (e *Container) Way() telemetry.Way { return e.placement.way }

// IsUnseen reports whether the daemon has seen the creation of the container and has not
// read its cgroup yet.
func (e *Container) IsUnseen() bool { return e.seenCreated && !e.placement.seen }

// IsExposed reports whether the container has been outside its pool since its first
// reading.
func (e *Container) IsExposed() bool { return e.placement.exposed }

// NoteFirstReading records the first reading of the container's cgroup: whether all its
// effective CPUs are in its pool, and whether its cpuset has been written.
func (e *Container) NoteFirstReading(inPool, written bool) {
	p := &e.placement
	p.seen, p.exposed = true, !inPool
	p.making = p.exposed && p.way == telemetry.WaySpec && e.Container.State == cri.Created && !written
}

// EndExposure records that an exposed container is in its pool. It reports whether the OCI
// runtime was making the container at the first reading: it may have been in its pool
// before its entrypoint ran.
func (e *Container) EndExposure() (making bool) {
	e.placement.exposed = false
	return e.placement.making
}
