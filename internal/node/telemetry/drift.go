package telemetry

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"
)

// Cause is the presumed author of an external write.
type Cause string

// Causes. A named cause is the only one that the evidence allows. All other writes, those by
// administrators included, have CauseUnknown.
const (
	CauseSystemd Cause = "systemd_reload"
	CauseRuntime Cause = "runtime"
	CauseKubelet Cause = "kubelet"
	CauseUnknown Cause = "unknown"
)

// Drift is a kind of external write: its cause and the file of the cgroup.
type Drift struct {
	Cause    Cause
	Property string
}

// Drifted holds the numbers of external writes since the daemon's start.
type Drifted struct {
	// Repaired is the part of Drifts that was repaired; the other cgroups are gone.
	Drifts, Repaired map[Drift]uint64
	// Repairs holds the repair times, in seconds, of the writes that the kernel reported.
	Repairs Histogram
}

// Histogram counts observations in seconds. Buckets are cumulative, by upper bound.
type Histogram struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64
}

// NewHistogram returns an empty histogram. Its bounds fit repairs and placements: a write to
// a file takes less than a millisecond, a call of the runtime or systemd on a busy node
// seconds. more are further bounds.
func NewHistogram(more ...float64) Histogram {
	h := Histogram{Buckets: make(map[float64]uint64)}
	for _, bound := range more {
		h.Buckets[bound] = 0
	}
	for _, bound := range []float64{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60} {
		h.Buckets[bound] = 0
	}
	return h
}

// Observe adds a value in seconds.
func (h *Histogram) Observe(seconds float64) {
	h.Count++
	h.Sum += seconds
	for bound := range h.Buckets {
		if seconds <= bound {
			h.Buckets[bound]++
		}
	}
}

// Clone returns a copy that later observations do not change.
func (h *Histogram) Clone() Histogram {
	return Histogram{Count: h.Count, Sum: h.Sum, Buckets: maps.Clone(h.Buckets)}
}

func (e emitter) drifts(v *View) {
	for d, n := range v.Drifts {
		e.emit(driftsTotal, float64(n), string(d.Cause), d.Property)
	}
	for d, n := range v.Repaired {
		e.emit(driftsRepaired, float64(n), string(d.Cause), d.Property)
	}
	e.emit(driftsOpen, float64(v.Open))
	e.histogram(driftRepair, v.Repairs)
	e.emit(gatheredTotal, float64(v.Gathered))
	e.emit(stuckThreads, float64(v.Stuck))
}

func (e emitter) histogram(name string, h Histogram, labels ...string) {
	sample, err := prometheus.NewConstHistogram(e.metrics[name].desc, h.Count, h.Sum, h.Buckets, labels...)
	if err != nil {
		e.invalid(name, err)
		return
	}
	e.ch <- sample
}
