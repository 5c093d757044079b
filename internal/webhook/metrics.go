package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/cpupoold/cpupoold/internal/admission"
)

// Results of a review.
const (
	resultUnchanged = "unchanged"
	resultChanged   = "changed"
	resultRefused   = "refused"
	resultFailed    = "failed" // an HTTP error: the failurePolicy decides
)

// Names of the webhooks, in metrics and log.
const (
	podsName   = "pods"
	resizeName = "resize"
)

// counters are the metrics of reviews and switches.
type counters struct {
	reviews, warnings *prometheus.CounterVec
	switches, latches *prometheus.GaugeVec
}

func newCounters(registry prometheus.Registerer) (*counters, error) {
	c := &counters{
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_reviews_total", Help: "Reviews by webhook (pods, resize) and result (unchanged, changed, refused, failed).",
		}, []string{"webhook", "result"}),
		warnings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_warnings_total", Help: "Things that pods asked for and did not get, by reason.",
		}, []string{"reason"}),
		switches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_on", Help: "1 if pods get the resource at the moment, by resource.",
		}, []string{"resource"}),
		latches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_latched", Help: "1 if every schedulable node has advertised the resource at some time, by resource.",
		}, []string{"resource"}),
	}
	for _, webhook := range []string{podsName, resizeName} {
		for _, result := range []string{resultUnchanged, resultChanged, resultRefused, resultFailed} {
			c.reviews.WithLabelValues(webhook, result)
		}
	}
	for _, reason := range admission.Reasons() {
		c.warnings.WithLabelValues(string(reason))
	}
	for _, collector := range []prometheus.Collector{c.reviews, c.warnings, c.switches, c.latches} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *counters) review(webhook, result string) {
	c.reviews.WithLabelValues(webhook, result).Inc()
}

func (c *counters) warning(reason admission.Reason) {
	c.warnings.WithLabelValues(string(reason)).Inc()
}

func resultOf(response *admissionv1.AdmissionResponse) string {
	switch {
	case !response.Allowed:
		return resultRefused
	case len(response.Patch) > 0:
		return resultChanged
	default:
		return resultUnchanged
	}
}
