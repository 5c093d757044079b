package tsc

// counter returns the time stamp counter.
func counter() uint64
