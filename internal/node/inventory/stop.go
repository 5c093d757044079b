package inventory

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cri"
)

// stopState is the state of a decision about one instance of a container: whether the
// daemon stops it because it was refused exclusive CPUs.
type stopState struct {
	decided  bool // after the start, once
	toStop   bool
	stopping bool
	retry    time.Time // earliest next attempt after an error
}

// DecideStop reports whether the daemon has to stop a running container now. It decides
// once for each instance, with the first final verdict after the start. Later it never
// stops a container that may run then: neither a reload nor a resize may end its work. It
// never stops a container whose creation the daemon has not seen. refused is true if the
// current plan refuses exclusive CPUs and the configuration requires a stop.
func (e *Container) DecideStop(final, refused bool, now time.Time) bool {
	s := &e.stop
	if !s.decided && final {
		s.decided, s.toStop = true, e.seenCreated
	}
	s.toStop = s.toStop && refused
	if !s.toStop || s.stopping || now.Before(s.retry) {
		return false
	}
	s.stopping = true
	return true
}

// NoteStop records the result of stopping the container. After an error DecideStop returns
// true again from retry on.
func (e *Container) NoteStop(err error, retry time.Time) {
	e.stop.stopping = false
	if err != nil {
		e.stop.retry = retry
		return
	}
	e.advance(cri.Exited)
}

// NextStop returns the earliest time for the next attempt to stop the container, and
// whether the daemon has to stop it.
func (e *Container) NextStop() (time.Time, bool) {
	return e.stop.retry, e.stop.toStop && e.Container.State == cri.Running
}
