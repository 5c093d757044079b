package telemetry

import (
	"maps"
	"slices"
)

// meter adds up increments of the kernel's counters for each series.
//
// The CPUs and containers of a pool change, so that the sum of their counters can fall. The
// sum of their increments only grows, as a Prometheus counter must.
type meter struct {
	last map[source]float64
	sums map[series]float64
}

// source is one counter of the kernel: one kind for one CPU or container.
type source struct {
	metric, id, kind string
}

// series is one time series of a metric.
type series struct {
	metric string
	PoolName
	kind string
}

// reading is the current value of a source, with the pools that count its increment.
type reading struct {
	source
	value float64
	pools []PoolName
}

// update counts a new source from this scrape on, and drops series of removed pools.
func (m *meter) update(readings []reading, pools []PoolName) {
	last := make(map[source]float64, len(readings))
	if m.sums == nil {
		m.sums = make(map[series]float64)
	}
	maps.DeleteFunc(m.sums, func(s series, _ float64) bool { return !slices.Contains(pools, s.PoolName) })
	for _, r := range readings {
		last[r.source] = r.value
		before, seen := m.last[r.source]
		// idle and iowait of /proc/stat can decrease (proc_stat(5)).
		increment := max(r.value-before, 0)
		if !seen {
			increment = 0
		}
		for _, p := range r.pools {
			if slices.Contains(pools, p) {
				m.sums[series{r.metric, p, r.kind}] += increment
			}
		}
	}
	m.last = last
}
