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
| cpupool_webhook_claims_known | gauge |  | 1 if the webhook knows all ResourceClaims, or the API server has no ResourceClaims (before Kubernetes 1.34). 0: it counts the cpu requests of all containers, and warns. |
| cpupool_webhook_evictions_total | counter | result | Evictions of pods from depleted nodes, by result (evicted, dry_run, refused, failed). |
| cpupool_webhook_eviction_halted | gauge | reason | 1 while pods that should be evicted are not, by reason (too_many_nodes, no_policy, error). |
| cpupool_webhook_depleted_nodes | gauge |  | Depleted nodes from which pods may be evicted. |
| cpupool_webhook_eviction_leader | gauge |  | 1 in the replica that evicts. |
| cpupool_webhook_hosted_priority_pods_total | counter | reason | Pods with a priority class of HyperShift's control planes, by reason. They get another class with size and override. They keep it with opted_out, no_cluster, ambiguous, no_class and unknown. |
| cpupool_webhook_hosted_priority_records_total | counter | result | Records of choices in annotations of HostedClusters, by result (written, failed). |
| cpupool_webhook_hosted_clusters | gauge | size | HostedClusters by size; opted_out have switched it off, none have no size. |
| cpupool_webhook_hosted_priority_problems | gauge | kind | Problems that an administrator must correct, by kind; the log has the text. Kinds: ambiguous, annotation, class_missing, class_differs. Also etcd_below, unknown_size, no_sizes and node_pool. |
| cpupool_webhook_hosted_priority_following | gauge |  | 1 while HostedClusters and NodePools are followed, 0 while they are missing or cannot be read. |

## The driver for ResourceClaims

Served by cpupool-dra on the address of --listen ([guide](../how-to/use-resource-claims.md)). A test in test/monitoring compares these names with its code. The usual go_* and process_* metrics
describe its own process.

| metric | type | labels | meaning |
|---|---|---|---|
| cpupool_dra_registered | gauge |  | 1 if the kubelet has registered the driver. |
| cpupool_dra_daemon_up | gauge |  | 1 if the daemon has answered within 30 seconds. |
| cpupool_dra_ready | gauge |  | 1 if the daemon recognises containers with claims. |
| cpupool_dra_devices | gauge |  | Devices in the published ResourceSlices of the node. |
| cpupool_dra_cpus | gauge |  | Capacity of the published devices, in CPUs. |
| cpupool_dra_accounting | gauge | accounting | 1 for the way in which CPUs of claims count as cpu of the Node (reserved, mapped). |
| cpupool_dra_slice_problems | gauge | kind | 1 for a problem of the published devices, by kind; the log has the text. The first four keep new claims off the node: away (the daemon does not answer), not_ready (no NRI), sharing and mapping (the API server drops fields). With unreserved, the kubelet reserves fewer CPUs than the list has. |
| cpupool_dra_publication_errors_total | counter | kind | Errors of the publication of ResourceSlices: fields that the API server dropped (dropped_fields), refusals (refused), other errors (other). |
| cpupool_dra_probe_failures_total | counter |  | Failed questions to the API server about its features, and failed readings of the Node. |
| cpupool_dra_claims | gauge |  | Claims that are prepared on the node. |
| cpupool_dra_faulty_claims | gauge |  | Prepared claims with problems or with CPUs that are offline. |
| cpupool_dra_call_duration_seconds | histogram | call, result | Duration of the kubelet's calls for one claim, by call (prepare, unprepare) and result (ok, error). |
| cpupool_dra_background_errors_total | counter | part | Errors outside of the kubelet's calls, by part (status, cleanup). |
| cpupool_dra_orphans_ended_total | counter |  | Claims that ended without a call of the kubelet, because no pod can use them. |
`)
	return b.String()
}
