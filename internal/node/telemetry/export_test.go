package telemetry

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Names returns the names of all metrics of the table.
func Names() []string {
	var names []string
	for _, s := range specs() {
		names = append(names, s.name)
	}
	return names
}

// Document returns docs/reference/metrics.md.
func Document() string {
	var b strings.Builder
	b.WriteString(`# Metrics

Served as text on /metrics of ` + "`listenAddress`" + `. Values come from the daemon's state after its last pass, or from the kernel at the
time of the scrape. The usual process_* metrics describe the daemon's own process.
This page is generated from the table in internal/node/telemetry: ` + "`go test ./internal/node/telemetry -update`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, s := range specs() {
		kind := "gauge"
		switch s.kind {
		case prometheus.CounterValue:
			kind = "counter"
		case histogram:
			kind = "histogram"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s.name, kind, strings.Join(s.labels, ", "), s.help)
	}
	b.WriteString(`
## The webhook

Served by cpupool-webhook on its own address ([webhook](../how-to/install-webhook.md)). A test in test/monitoring compares these names with its code.

| metric | type | labels | meaning |
|---|---|---|---|
| cpupool_webhook_reviews_total | counter | webhook, result | Reviews by webhook (pods, resize, autoscalers) and result (unchanged, changed, refused, failed). |
| cpupool_webhook_warnings_total | counter | reason | Things that pods asked for and did not get, by reason. |
| cpupool_webhook_resource_on | gauge | resource | 1 if pods get the resource at the moment, by resource. |
| cpupool_webhook_resource_latched | gauge | resource | 1 if the latch of the resource is closed, by resource. |
| cpupool_webhook_resource_lacking_nodes | gauge | resource | Schedulable nodes that keep the latch of the resource open, or would if it were open, by resource. |
| cpupool_webhook_evictions_total | counter | result | Evictions of pods from depleted nodes, by result (evicted, dry_run, refused, failed). |
| cpupool_webhook_eviction_halted | gauge | reason | 1 while pods that should be evicted are not, by reason (too_many_nodes, no_policy, error). |
| cpupool_webhook_depleted_nodes | gauge |  | Depleted nodes from which pods may be evicted. |
| cpupool_webhook_eviction_leader | gauge |  | 1 in the replica that evicts. |
| cpupool_webhook_hosted_priority_pods_total | counter | reason | Pods with a priority class of HyperShift's control planes, by reason. They get another class with size and override. They keep it with opted_out, no_cluster, ambiguous, no_class and unknown. |
| cpupool_webhook_hosted_priority_records_total | counter | result | Records of choices in annotations of HostedClusters, by result (written, failed). |
| cpupool_webhook_hosted_clusters | gauge | size | HostedClusters by size; opted_out have switched it off, none have no size. |
| cpupool_webhook_hosted_priority_problems | gauge | kind | Problems that an administrator must correct, by kind; the log has the text. Kinds: ambiguous, annotation, class_missing, class_differs. Also etcd_below, unknown_size, no_sizes and node_pool. |
| cpupool_webhook_hosted_priority_following | gauge |  | 1 while HostedClusters and NodePools are followed, 0 while they are missing or cannot be read. |
`)
	return b.String()
}
