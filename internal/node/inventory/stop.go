package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// stopState is the state of a decision about one instance of a container: whether the
// daemon stops it because it was refused exclusive CPUs.
type stopState int

const (
	open     stopState = iota // not decided
	allowed                   // the container may run, for good
	toStop                    // the daemon has to stop it
	stopping                  // the daemon is stopping it
)

// stop is a decision, with the earliest next attempt after an error.
type stop struct {
	state stopState
	retry time.Time
}

// DecideStop reports whether the daemon has to stop a running container now. It decides
// once for each instance, with the first final verdict after the start. Later it never
// stops a container that may run then: neither a reload nor a resize may end its work. It
// never stops a container whose creation the daemon has not seen. refused is true if the
// current plan refuses exclusive CPUs and the configuration requires a stop.
func (e *Container) DecideStop(final, refused bool, now time.Time) bool {
	s := &e.stop
	if s.state == open && final {
		if s.state = allowed; e.seenCreated {
			s.state = toStop
		}
	}
	if !refused {
		s.state = min(s.state, allowed)
	}
	if s.state != toStop || now.Before(s.retry) {
		return false
	}
	s.state = stopping
	return true
}

// NoteStop records the result of stopping the container. After an error DecideStop returns
// true again from retry on.
func (e *Container) NoteStop(err error, retry time.Time) {
	if e.stop.state == stopping {
		e.stop.state = toStop
	}
	if err != nil {
		e.stop.retry = retry
		return
	}
	e.advance(cri.Exited)
}

// NextStop returns the earliest time for the next attempt to stop the container, and
// whether the daemon has to stop it.
func (e *Container) NextStop() (time.Time, bool) {
	return e.stop.retry, e.stop.state >= toStop && e.Container.State == cri.Running
}
