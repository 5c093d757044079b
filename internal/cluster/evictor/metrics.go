package evictor

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of evictions.
const (
	resultDone    = "evicted"
	resultWould   = "dry_run"
	resultRefused = "refused"
	resultFailed  = "failed"
)

// counters are the metrics of evictions. Only the leader sets the gauges.
type counters struct {
	evictions     *prometheus.CounterVec
	halted        *prometheus.GaugeVec
	nodes, leader prometheus.Gauge
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		evictions: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_evictions_total", Help: "Evictions of pods from depleted nodes, by result (evicted; dry_run: it would have been; refused: a disruption budget is against it, and it is tried again; failed).",
		}, []string{"result"}),
		halted: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_halted", Help: "1 while pods that should be evicted are not, by reason (too_many_nodes, no_policy, error).",
		}, []string{"reason"}),
		nodes: register.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_depleted_nodes", Help: "Depleted nodes from which pods may be evicted.",
		}),
		leader: register.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_leader", Help: "1 in the replica that evicts.",
		}),
	}
	for _, result := range []string{resultDone, resultWould, resultRefused, resultFailed} {
		c.evictions.WithLabelValues(result)
	}
	c.resign()
	return c
}

// boolean returns 1 for true and 0 for false.
func boolean(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// resign sets the gauges of the leader to 0.
func (c *counters) resign() {
	c.leader.Set(0)
	c.nodes.Set(0)
	for _, reason := range halts() {
		c.halted.WithLabelValues(string(reason)).Set(0)
	}
}
