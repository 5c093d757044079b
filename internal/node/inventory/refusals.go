package inventory

import (
	"time"
)

// fate is what onRefusal means for an instance of a container.
type fate struct {
	// decided once, by the first verdict after the start; doomed says that it is to
	// be stopped.
	Decided, Doomed bool
	Stopping        bool
	Retry           time.Time // after an error
}
