package slices

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of requests, as labels of metrics.
const (
	errorDropped = "dropped_fields"
	errorRefused = "refused"
	errorOther   = "other"
)

type counters struct {
	devices, cpus        prometheus.Gauge
	accounting, problems *prometheus.GaugeVec
	errors               *prometheus.CounterVec
	probeFailures        prometheus.Counter
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		devices: register.NewGauge(prometheus.GaugeOpts{Name: "cpupool_dra_devices", Help: "Devices in the published ResourceSlices of the node."}),
		cpus:    register.NewGauge(prometheus.GaugeOpts{Name: "cpupool_dra_cpus", Help: "Capacity of the published devices, in CPUs."}),
		accounting: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_dra_accounting", Help: "1 for the way in which CPUs of claims count as cpu of the Node (reserved, mapped).",
		}, []string{"accounting"}),
		problems: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_dra_slice_problems", Help: "1 for a problem of the published devices. The log has the text of each kind.",
		}, []string{"kind"}),
		errors: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_dra_publication_errors_total", Help: "Errors of the publication of ResourceSlices: fields that the API server dropped (dropped_fields), refusals (refused), other errors (other).",
		}, []string{"kind"}),
		probeFailures: register.NewCounter(prometheus.CounterOpts{
			Name: "cpupool_dra_probe_failures_total", Help: "Failed questions to the API server about its features, and failed readings of the Node.",
		}),
	}
	for _, k := range []string{errorDropped, errorRefused, errorOther} {
		c.errors.WithLabelValues(k)
	}
	c.show(decision{})
	return c
}

// show sets the gauges to a decision. Before the first decision, no accounting is set.
func (c *counters) show(d decision) {
	c.devices.Set(float64(len(d.devices)))
	c.cpus.Set(float64(cpus(d.devices)))
	for _, a := range []Accounting{Reserved, Mapped} {
		c.accounting.WithLabelValues(string(a)).Set(number(d.counted == a))
	}
	for _, k := range []kind{problemAway, problemNotReady, problemSharing, problemMapping, problemUnreserved} {
		_, has := d.problems[k]
		c.problems.WithLabelValues(string(k)).Set(number(has))
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
