package inventory

import "time"

// StopState is what onRefusal means for an instance of a container.
type StopState struct {
	// Decided once, by the first verdict after the start; doomed says that it is to
	// be stopped.
	Decided, ToStop bool
	Stopping        bool
	Retry           time.Time // after an error
}
