package hostedclusters

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/cpupoold/cpupoold/internal/cluster/hostedpriority"
)

// Sizes of HostedClusters without a size, and results of writing annotations.
const (
	sizeNone     = "none"
	sizeOptedOut = "opted_out"

	resultWritten = "written"
	resultFailed  = "failed"
)

type counters struct {
	pods, records      *prometheus.CounterVec
	clusters, problems *prometheus.GaugeVec
	following          prometheus.Gauge
}

func newCounters(registry prometheus.Registerer) *counters {
	register := promauto.With(registry)
	c := &counters{
		pods: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_hosted_priority_pods_total", Help: "Pods with a priority class of HyperShift's control planes, by the reason why they get another one (size, override) or keep it (opted_out, no_cluster, ambiguous, no_class, unknown).",
		}, []string{"reason"}),
		records: register.NewCounterVec(prometheus.CounterOpts{
			Name: "cpupool_webhook_hosted_priority_records_total", Help: "Records of choices in annotations of HostedClusters, by result (written, failed).",
		}, []string{"result"}),
		clusters: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_hosted_clusters", Help: "HostedClusters by size; opted_out have switched it off, none have no size.",
		}, []string{"size"}),
		problems: register.NewGaugeVec(prometheus.GaugeOpts{
			Name: "cpupool_webhook_hosted_priority_problems", Help: "Problems that an administrator must correct, by kind (ambiguous, annotation, class_missing, class_differs, etcd_below, unknown_size, no_sizes, node_pool); the log has the text.",
		}, []string{"kind"}),
		following: register.NewGauge(prometheus.GaugeOpts{
			Name: "cpupool_webhook_hosted_priority_following", Help: "1 while HostedClusters and NodePools are followed, 0 while they are missing or cannot be read.",
		}),
	}
	for _, reason := range hostedpriority.Reasons() {
		c.pods.WithLabelValues(string(reason))
	}
	for _, result := range []string{resultWritten, resultFailed} {
		c.records.WithLabelValues(result)
	}
	c.lost()
	return c
}

// lost resets the metrics while no HostedClusters are followed.
func (c *counters) lost() {
	c.following.Set(0)
	c.clusters.Reset()
	for _, kind := range hostedpriority.Problems() {
		c.problems.WithLabelValues(string(kind)).Set(0)
	}
}

// planned sets the metrics after a pass.
func (c *counters) planned(sizes []string, choices []hostedpriority.Choice, others []hostedpriority.Problem) {
	clusters, problems := map[string]int{sizeNone: 0, sizeOptedOut: 0}, map[hostedpriority.Reason]int{}
	for _, size := range sizes {
		clusters[size] = 0
	}
	for _, choice := range choices {
		switch {
		case choice.OptedOut:
			clusters[sizeOptedOut]++
		case choice.Size == "":
			clusters[sizeNone]++
		default:
			clusters[choice.Size]++
		}
		for _, p := range choice.Problems {
			problems[p.Kind]++
		}
	}
	for _, p := range others {
		problems[p.Kind]++
	}
	c.following.Set(1)
	c.clusters.Reset()
	for size, n := range clusters {
		c.clusters.WithLabelValues(size).Set(float64(n))
	}
	for _, kind := range hostedpriority.Problems() {
		c.problems.WithLabelValues(string(kind)).Set(float64(problems[kind]))
	}
}
