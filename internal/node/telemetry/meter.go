package telemetry

// meter adds up increments of the kernel's counters by series.
//
// A pool's CPUs and containers change, so the sum of their counters jumps up and
// down; a sum of their increments only grows, as a Prometheus counter must.
type meter struct {
	last map[source]float64
	sums map[series]float64
}

// source is one counter of the kernel: a CPU's or a container's, of one kind.
type source struct {
	metric, id, kind string
}

// series is one time series that a metric has.
type series struct {
	metric string
	PoolName
	kind string
}

// reading is what a source says now, and the series that its increment counts
// in.
type reading struct {
	source
	value float64
	pools []PoolName
}

// update takes all readings of one scrape. A source that was not there before
// counts from now on. Series of pools that are no more are dropped.
func (m *meter) update(readings []reading, pools []PoolName) {
	last := make(map[source]float64, len(readings))
	exists := make(map[PoolName]bool, len(pools))
	for _, p := range pools {
		exists[p] = true
	}
	sums := make(map[series]float64, len(m.sums))
	for s, v := range m.sums {
		if exists[s.PoolName] {
			sums[s] = v
		}
	}
	for _, r := range readings {
		last[r.source] = r.value
		before, seen := m.last[r.source]
		// idle and iowait of /proc/stat do step back (proc_stat(5)), by rounding.
		increment := max(r.value-before, 0)
		if !seen {
			increment = 0
		}
		for _, p := range r.pools {
			if exists[p] {
				sums[series{r.metric, p, r.kind}] += increment
			}
		}
	}
	m.last, m.sums = last, sums
}
