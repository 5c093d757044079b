package inventory

import (
	"time"

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

// Exposure is the view of a container for the measurement of its exposure.
type Exposure struct{ of *Container }

// Exposure returns the view of the container for the measurement of its exposure.
func (e *Container) Exposure() Exposure { return Exposure{e} }

// Began returns when the container was created, on the daemon's clock.
func (x Exposure) Began() time.Time { return x.of.began }

// FoundBy records how the daemon learned of a container that it has not placed yet. The
// first way counts.
func (x Exposure) FoundBy(way telemetry.Way) {
	if p := &x.of.placement; !p.seen && p.way == "" && x.of.Container.State != cri.Exited {
		p.way = way
	}
}

// Way returns how the daemon learned of the container. It is empty if an event of the
// runtime was the first sign.
func (x Exposure) Way() telemetry.Way { return x.of.placement.way }

// IsUnseen reports whether the daemon has seen the creation of the container and has not
// read its cgroup yet.
func (x Exposure) IsUnseen() bool { return x.of.seenCreated && !x.of.placement.seen }

// IsExposed reports whether the container has been outside its pool since its first
// reading.
func (x Exposure) IsExposed() bool { return x.of.placement.exposed }

// NoteFirstReading records the first reading of the container's cgroup: whether all its
// effective CPUs are in its pool, and whether its cpuset has been written.
func (x Exposure) NoteFirstReading(inPool, written bool) {
	p := &x.of.placement
	p.seen, p.exposed = true, !inPool
	p.making = p.exposed && p.way == telemetry.WaySpec && x.of.Container.State == cri.Created && !written
}

// End records that an exposed container is in its pool. It reports whether the OCI
// runtime was making the container at the first reading: it may have been in its pool
// before its entrypoint ran.
func (x Exposure) End() (making bool) {
	x.of.placement.exposed = false
	return x.of.placement.making
}
