package service

import (
	"time"
)

// NextPulse is nextPulse for tests.
var NextPulse = nextPulse

// Fed returns the time of the last notification of the watchdog.
func (n *Notifier) Fed() time.Time { return n.fed }
