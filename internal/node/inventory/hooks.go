package inventory

import (
	"time"
)

// ghostTime is how long a container may be known from NRI alone. A creation takes
// seconds on a busy node; one that has failed is taken back by the runtime, if it is
// still connected then.
const ghostTime = 2 * time.Minute
