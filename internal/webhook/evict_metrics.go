package webhook

import "github.com/prometheus/client_golang/prometheus"

// Results of evictions.
const (
	evictionDone    = "evicted"
	evictionWould   = "dry_run"
	evictionRefused = "refused"
	evictionFailed  = "failed"
)

// evictionCounters are the metrics of evictions. All but the first are the leader's.
type evictionCounters struct {
	evictions     *prometheus.CounterVec
	halted        *prometheus.GaugeVec
	nodes, leader prometheus.Gauge
}

func newEvictionCounters(registry prometheus.Registerer) (*evictionCounters, error) {
	c := &evictionCounters{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_evictions_total", Help: "Evictions of pods from depleted nodes, by result (evicted; dry_run: it would have been; refused: a disruption budget is against it, and it is tried again; failed).",
		}, []string{"result"}),
		halted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_halted", Help: "1 while nobody, or not everybody, is evicted who should be, by reason (too_many_nodes, no_policy, error).",
		}, []string{"reason"}),
		nodes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_depleted_nodes", Help: "Depleted nodes from which pods may be evicted.",
		}),
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_eviction_leader", Help: "1 in the replica that evicts.",
		}),
	}
	for _, result := range []string{evictionDone, evictionWould, evictionRefused, evictionFailed} {
		c.evictions.WithLabelValues(result)
	}
	c.resign()
	for _, collector := range []prometheus.Collector{c.evictions, c.halted, c.nodes, c.leader} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// resign sets what is the leader's to say to nothing.
func (c *evictionCounters) resign() {
	c.leader.Set(0)
	c.nodes.Set(0)
	for _, reason := range halts() {
		c.halted.WithLabelValues(string(reason)).Set(0)
	}
}
