package switches

import "time"

// Run is the time of a thread on a CPU between two switches.
type Run struct {
	Thread

	From, To time.Duration // CLOCK_MONOTONIC
}

// Runs returns the whole runs in the switches of a CPU, without the runs of the idle task. The first run is missing, because its begin
// is before the record.
func Runs(all []Switch) (runs []Run) {
	for i := 1; i < len(all); i++ {
		if all[i].Prev.TID != 0 {
			// The name at the end: a process that starts another program has a new one.
			runs = append(runs, Run{Thread: all[i].Prev, From: all[i-1].At, To: all[i].At})
		}
	}
	return runs
}
