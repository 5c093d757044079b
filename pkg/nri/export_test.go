package nri

import "time"

// CheckEvery sets the time between two comparisons of the pods.
func (o *Options) CheckEvery(d time.Duration) { o.checkInterval = d }

// WaitFor sets the time until the state Waiting.
func (o *Options) WaitFor(d time.Duration) { o.waitLimit = d }
