package webhook

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cpupoold/cpupoold/internal/admission"
	"github.com/cpupoold/cpupoold/internal/cluster/review"
)

type counters struct {
	reviews, warnings        *prometheus.CounterVec
	switches, latches, lacks *prometheus.GaugeVec
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		reviews: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_reviews_total", Help: "Reviews by webhook (pods, resize, autoscalers) and result (unchanged, changed, refused, failed).",
		}, []string{"webhook", "result"}),
		warnings: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_warnings_total", Help: "Things that pods asked for and did not get, by reason.",
		}, []string{"reason"}),
		switches: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_on", Help: "1 if pods get the resource at the moment, by resource.",
		}, []string{"resource"}),
		latches: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_latched", Help: "1 if the latch of the resource is closed, by resource.",
		}, []string{"resource"}),
		lacks: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_resource_lacking_nodes", Help: "Schedulable nodes that keep the latch of the resource open, or would if it were open, by resource.",
		}, []string{"resource"}),
	}
	for _, webhook := range []string{review.OfPods, review.OfResizes, review.OfAutoscalers} {
		for _, result := range review.Results() {
			c.reviews.WithLabelValues(webhook, string(result))
		}
	}
	for _, reason := range admission.Reasons() {
		c.warnings.WithLabelValues(string(reason))
	}
	return c
}

// Reviewed implements review.Counter.
func (c *counters) Reviewed(name string, result review.Result) {
	c.reviews.WithLabelValues(name, string(result)).Inc()
}

// Warned implements review.Counter.
func (c *counters) Warned(reason admission.Reason) {
	c.warnings.WithLabelValues(string(reason)).Inc()
}
