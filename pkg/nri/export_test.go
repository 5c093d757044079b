package nri

import "time"

// CheckEvery sets the time between two comparisons of the pods.
func (o *Options) CheckEvery(d time.Duration) { o.checkInterval = d }
