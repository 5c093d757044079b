package telemetry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Names of the metrics.
const (
	buildInfo         = "cpupoold_build_info"
	configStale       = "cpupoold_config_stale"
	configAdapted     = "cpupoold_config_adapted"
	lastSuccess       = "cpupoold_last_successful_pass_timestamp_seconds"
	passes            = "cpupoold_passes_total"
	writes            = "cpupoold_writes_total"
	writeErrors       = "cpupoold_write_errors_total"
	faulty            = "cpupoold_faulty_cgroups"
	sourceState       = "cpupoold_source_state"
	problems          = "cpupoold_problems"
	hostUnit          = "cpupoold_host_unit"
	refusals          = "cpupoold_refusals_total"
	refusedNow        = "cpupoold_refused_containers"
	containers        = "cpupoold_containers"
	containerMode     = "cpupoold_container_isolation"
	containerNoise    = "cpupoold_container_noise_cpus"
	partitions        = "cpupoold_partitions"
	partitionChanges  = "cpupoold_partition_changes_total"
	leakedCPUs        = "cpupoold_leaked_cpus"
	parkedCPUs        = "cpupoold_parked_cpus"
	mixedContainers   = "cpupoold_mixed_containers"
	quietWaits        = "cpupoold_quiet_waiting"
	observedWrites    = "cpupoold_observed_writes"
	poolCPUs          = "cpupoold_pool_cpus"
	offlineCPUs       = "cpupoold_offline_cpus"
	poolFreeCPUs      = "cpupoold_pool_free_cpus"
	poolAllocated     = "cpupoold_pool_allocated_cpus"
	ownerRoom         = "cpupoold_owner_room_cpus"
	poolSeconds       = "cpupoold_pool_cpu_seconds_total"
	poolWait          = "cpupoold_pool_runqueue_wait_seconds_total"
	poolPressure      = "cpupoold_pool_container_pressure_seconds_total"
	poolThrottle      = "cpupoold_pool_container_throttled_seconds_total"
	containerSeconds  = "cpupoold_container_cpu_seconds_total"
	containerThrottle = "cpupoold_container_cpu_throttled_seconds_total"
	driftsTotal       = "cpupoold_drift_total"
	driftsRepaired    = "cpupoold_drift_repaired_total"
	driftsOpen        = "cpupoold_drift_open"
	gatheredTotal     = "cpupoold_gathered_threads_total"
	stuckThreads      = "cpupoold_stuck_threads"
	driftRepair       = "cpupoold_drift_repair_seconds"
	placementTime     = "cpupoold_placement_seconds"
	placementUsage    = "cpupoold_placement_exposure_cpu_seconds"
	containerPressure = "cpupoold_container_cpu_pressure_seconds_total"
	auditScore        = "cpupoold_audit_score_ratio"
	auditTasks        = "cpupoold_audit_exposed_tasks"
	auditIRQs         = "cpupoold_audit_exposed_interrupts"
	auditOthers       = "cpupoold_audit_foreign_cpu_seconds_total"
	auditInterrupts   = "cpupoold_audit_device_interrupts_total"
	auditLooks        = "cpupoold_audit_looks_total"
	auditSeconds      = "cpupoold_audit_cpu_seconds_total"
	quietCPUs         = "cpupoold_interrupt_free_cpus"
	settingsMoved     = "cpupoold_host_settings_moved"
	settingsStuck     = "cpupoold_host_settings_stuck"
	settingsPending   = "cpupoold_host_settings_pending"
	settingWrites     = "cpupoold_host_settings_writes_total"
	nodePressure      = "cpupoold_node_cpu_pressure"
	nodePatches       = "cpupoold_node_patches_total"
	nodeEvents        = "cpupoold_node_events_total"
	nodeResource      = "cpupoold_node_resource_cpus"
	nodeUnaccounted   = "cpupoold_node_unaccounted_cpus"
)

// histogram is the kind of metrics that count by bounds, of which the library does not
// make one value each.
const histogram = prometheus.UntypedValue

// spec is one metric.
type spec struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
}

// specs is the table of all metrics. Labels take few values, except for those
// that name a container; of these there are as many as containers on the node.
func specs() []spec {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	pool := []string{"pool", "type"}
	with := func(more ...string) []string { return append(slices.Clip(pool), more...) }
	container := with("namespace", "pod", "container", "container_id")
	return []spec{
		{buildInfo, "Always 1; the labels are the daemon's version, its commit and its Go release.", gauge, []string{"version", "revision", "goversion"}},
		{configStale, "1 while the configuration file has problems and an older configuration is in force.", gauge, nil},
		{configAdapted, "Number of differences between the configuration and what of it is in force, because it does not fit this machine; 0 when it is in force as it is.", gauge, nil},
		{lastSuccess, "Unix time of the last pass after which every cgroup was verified to be as planned; 0 before the first.", gauge, nil},
		{passes, "Passes over the node, by result (ok: everything was as planned afterwards; failed).", counter, []string{"result"}},
		{writes, "Writes of settings, by way (file: cgroup file; cri: runtime; dbus: systemd; nri: runtime, before it creates another container) and result (ok, failed).", counter, []string{"via", "result"}},
		{writeErrors, "Writes of settings that failed, by way and by the kernel's error (EBUSY, EINVAL, ...); timeout for runtime or systemd that did not answer in time, other for what they refused with an error of their own.", counter, []string{"via", "errno"}},
		{faulty, "Cgroups that are not as planned after the last pass, and that nothing under way will mend: each is a container or unit outside of its pool, or with a weight, a quota or memory nodes that are not its own.", gauge, nil},
		{sourceState, "1 for the state that a source of events or hints is in: ok, polling or absent (it does not exist here, and others lead to the same), or lost (it broke and is being reestablished). The event stream (cri_events) is also lost while the runtime does not answer, and systemd (systemd_units) while it does not tell of its units or of its reloads. The API server (api_server) is lost while it does not answer, which costs what the cluster sees and nothing on the node. Annotations of namespaces (namespaces, with namespacePermission: annotation) are lost likewise, and namespaces that are new then allow nothing.", gauge, []string{"source", "state"}},
		{nodeResource, "CPUs that the scheduler is told of, by extended resource (in thousandths there). Absent, as the other metrics of node, where the node is shown to no cluster.", gauge, []string{"resource"}},
		{nodeUnaccounted, "CPUs that pods use without asking for the resource by which they are counted; the resource is lowered by them.", gauge, []string{"resource"}},
		{nodePressure, "1 while the shared pool counts as depleted (depletion), also where nothing is done about it.", gauge, nil},
		{nodePatches, "Patches of the Node, by result (ok; conflict: it had changed, and was patched again; failed).", counter, []string{"result"}},
		{nodeEvents, "Events of pods and of the Node, by result (ok, failed).", counter, []string{"result"}},
		{problems, "Inputs that could not be honoured, by reason code.", gauge, []string{"code"}},
		{hostUnit, "1 for what has become of a unit of host services (hostSlices): confined, foreign (an administrator has given it CPUs), inside (another unit that is placed), holds-pods, absent or unknown.", gauge, []string{"unit", "state"}},
		{refusals, "Containers and units that should have got CPUs of their own and did not, by reason code, since the daemon's start.", counter, []string{"code"}},
		{refusedNow, "Containers and units that should have CPUs of their own and have none at the moment.", gauge, nil},
		{driftsTotal, "Writes of somebody else to cgroups that were as planned, by cause (systemd_reload, runtime, kubelet; unknown where the evidence does not tell) and by the file of the cgroup. Each was repaired, or its cgroup is gone; what is neither yet is cpupoold_drift_open. Weights, quotas and memory nodes written while the daemon has the runtime or systemd record something are repaired and not counted.", counter, []string{"cause", "property"}},
		{driftsRepaired, "Of the writes of cpupoold_drift_total those that were repaired; the cgroups of the others had gone before.", counter, []string{"cause", "property"}},
		{driftsOpen, "Writes of somebody else that have been found and that are not repaired yet.", gauge, nil},
		{placementTime, "Time from the appearance of a new container's cgroup until the kernel confirmed that it is in its pool, by what led there (nri and spec: its CPUs were on record before; inotify, event, resync: it was found); 0 where it was inside when it was first looked at, or where systemd knows that the OCI runtime made its cgroup with these CPUs: no entrypoint begins before that.", histogram, []string{"path"}},
		{placementUsage, "CPU time that a new container had used by then: an upper bound of what it did outside its pool.", histogram, []string{"path"}},
		{driftRepair, "Time from a foreign write, as the kernel told of it, until the kernel confirmed the repair.", histogram, nil},
		{gatheredTotal, "Threads that the kernel had left outside of the CPUs of their cgroup (forked while its cpuset was written) and that were brought back.", counter, nil},
		{stuckThreads, "Threads outside of the CPUs of their cgroup that could not be brought back (io_uring workers before kernel 6.12).", gauge, nil},
		{quietCPUs, "CPUs that are to handle no interrupts of devices, because who has them for himself asks for it (interrupts.away).", gauge, nil},
		{settingsMoved, "Settings of the host outside of cgroups that hold a value of the daemon's, by kind: default-affinity and irq (affinity of interrupts), irqbalance (1: it is told), rps (receive queues), workqueue, kthread (threads of the kernel), governor, epp (energy preference), cstate (idle states of CPUs).", gauge, []string{"kind"}},
		{settingsStuck, "Settings of the host that are not as they should be, by kind and reason: immovable (an interrupt that is managed by its driver, or bound), no-space (the other CPUs have no vector left), busy, no-cpu-left, contested (somebody else writes it), not-taken, failed.", gauge, []string{"kind", "reason"}},
		{settingsPending, "Changes of settings of the host that are not made, because mode is observe or the undo record cannot be written.", gauge, nil},
		{settingWrites, "Writes of settings of the host outside of cgroups, by kind and result (ok, failed).", counter, []string{"kind", "result"}},
		{containers, "Containers and units, by pool and by reason code of their placement.", gauge, with("reason")},
		{containerMode, "Always 1: what keeps others off the CPUs of a container that has its own. With partition-root and partition-isolated it is the kernel, with cpuset the sets of all others.", gauge, append(slices.Clip(container), "mode")},
		{containerNoise, "CPUs of a container with CPUs of its own on which the kernel does work of its own, by source: balancing (load balancing of the scheduler), tick (the timer tick while one thread runs), rcu (RCU callbacks), managed_irq (managed interrupts of drivers). The last three end with kernel arguments alone, which cpupoold plan prints.", gauge, append(slices.Clip(container), "source")},
		{partitions, "Containers that are to be partitions, by state: root and isolated are in force, underway will be in a moment; waits (for CPUs that are offline or not given back yet) and refused keep their CPUs by cpusets alone.", gauge, []string{"state"}},
		{partitionChanges, "Changes of partitions (cpuset.cpus.partition) that the kernel has taken. With each it builds its scheduling domains anew, which all CPUs of the machine feel for a moment.", counter, nil},
		{leakedCPUs, "CPUs that are online and that the kernel has in no cgroup any more; they are given to nobody until the machine boots.", gauge, nil},
		{mixedContainers, "Containers that run on shared CPUs beside those that they have for themselves (guaranteed.mixed).", gauge, nil},
		{parkedCPUs, "CPUs of the guaranteed pool that nobody holds and that the kernel keeps everybody off (guaranteed.park).", gauge, nil},
		{observedWrites, "Writes that would put containers and units into their pools and are not made, because mode is observe, by way (file, cri, dbus). Absent with mode: enforce.", gauge, []string{"via"}},
		{quietWaits, "What waits because somebody has CPUs of its own (quiet), by kind: cpus that owners have left and that stay out of the shared pool or are not parked yet, weights that somebody else has changed.", gauge, []string{"kind"}},
		{auditScore, "Share of the time of a pool's CPUs, between the last two looks of the audit (audit.interval), that nobody used who does not belong there: 1 is nobody. In the guaranteed pool that of the CPUs that somebody has; absent while nobody has any.", gauge, pool},
		{auditTasks, "Tasks that may run on CPUs of a pool and do not belong there, whether or not they ran. The kernel's own work for a CPU is not counted.", gauge, pool},
		{auditIRQs, "Interrupts of devices that have fired and may fire on CPUs that somebody has for himself.", gauge, pool},
		{auditOthers, "CPU time that tasks were seen to use of a pool's CPUs without belonging there. Sampled at each look: what a task used counts for the CPU where it is.", counter, pool},
		{auditInterrupts, "Interrupts of devices on CPUs that somebody has for himself, as the kernel counts them.", counter, pool},
		{auditLooks, "Looks of the audit at all tasks of the machine, by result (ok, failed). Absent, as all metrics of the audit, with audit.interval: off.", counter, []string{"result"}},
		{auditSeconds, "CPU time that the looks of the audit have cost.", counter, nil},
		{poolCPUs, "Capacity of a pool: its CPUs that are online. Management pools of type all overlap the others.", gauge, pool},
		{poolFreeCPUs, "CPUs of the guaranteed pool that no container holds.", gauge, nil},
		{poolAllocated, "CPUs of a pool that are spoken for: in the guaranteed pool those that somebody holds, in the others the sum of the CPU requests of the containers in it, as far as the runtime tells them; that can be more than there are.", gauge, pool},
		{ownerRoom, "CPUs of the largest new owner that the guaranteed pool has room for, by what it is to fit into: the pool, one NUMA node, one l3 cache, or whole_cores of one NUMA node; what the shared pool keeps (guaranteed.floor) is no room. The further the others are below the pool, the more fragmented it is; cpupoold plan --defrag says what would mend that.", gauge, []string{"within"}},
		{offlineCPUs, "CPUs that pools would have if they were online. What owners are without for it is cpupoold_problems with the code Offline.", gauge, nil},
		{poolSeconds, "Time of the pool's CPUs by mode (/proc/stat), host processes included, since the daemon's start. A CPU that changes pools counts from the next scrape in the new one.", counter, with("mode")},
		{poolWait, "Time that runnable tasks waited for the pool's CPUs (run_delay of /proc/schedstat), host processes included, since the daemon's start. Absent on kernels without schedstats.", counter, pool},
		{poolPressure, "Time that containers of the pool were stalled for want of CPU (total of cpu.pressure, kinds some and full), summed over containers, each since it was first seen. Absent where PSI is off.", counter, with("kind")},
		{poolThrottle, "Time that containers of the pool were held back by their quotas (throttled_usec of cpu.stat), summed over containers, each since it was first seen.", counter, pool},
		{containerSeconds, "CPU time of a container (usage_usec of cpu.stat).", counter, container},
		{containerThrottle, "Time that a container was held back by its quota (throttled_usec of cpu.stat).", counter, container},
		{containerPressure, "Time that a container was stalled for want of CPU (total of cpu.pressure, kinds some and full). Absent where PSI is off.", counter, append(slices.Clip(container), "kind")},
	}
}

// document renders the table as docs/metrics.md.
func document(all []spec) string {
	var b strings.Builder
	b.WriteString(`# Metrics

Served as text on /metrics of ` + "`listenAddress`" + `. Values come from the daemon's state after its last pass, or from the kernel at the
time of the scrape; besides these there are the usual process_* metrics of the daemon's own process.
This page is made from the table in internal/node/telemetry: ` + "`go test ./internal/node/telemetry -update`" + `.

| metric | type | labels | meaning |
|---|---|---|---|
`)
	for _, s := range all {
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

Served by cpupool-webhook on its own address ([webhook](webhook.md)). A test of test/monitoring holds these names to its code.

| metric | type | labels | meaning |
|---|---|---|---|
| cpupool_webhook_reviews_total | counter | webhook, result | Reviews by webhook (pods, resize) and result (unchanged, changed, refused, failed). |
| cpupool_webhook_warnings_total | counter | reason | Things that pods asked for and did not get, by reason. |
| cpupool_webhook_resource_on | gauge | resource | 1 if pods get the resource at the moment, by resource. |
| cpupool_webhook_resource_latched | gauge | resource | 1 if every schedulable node has advertised the resource at some time, by resource. |
| cpupool_webhook_evictions_total | counter | result | Evictions of pods from depleted nodes, by result (evicted, dry_run, refused, failed). |
| cpupool_webhook_eviction_halted | gauge | reason | 1 while pods that should be evicted are not, by reason (too_many_nodes, no_policy, error). |
| cpupool_webhook_depleted_nodes | gauge |  | Depleted nodes from which pods may be evicted. |
| cpupool_webhook_eviction_leader | gauge |  | 1 in the replica that evicts. |
| cpupool_webhook_hosted_priority_pods_total | counter | reason | Pods with a priority class of HyperShift's control planes, by the reason why they get another one (size, override) or keep it (opted_out, no_cluster, ambiguous, no_class, unknown). |
| cpupool_webhook_hosted_priority_records_total | counter | result | Records of choices in annotations of HostedClusters, by result (written, failed). |
| cpupool_webhook_hosted_clusters | gauge | size | HostedClusters by size; opted_out have switched it off, none have no size. |
| cpupool_webhook_hosted_priority_problems | gauge | kind | Problems that an administrator must correct, by kind (ambiguous, annotation, class_missing, class_differs, etcd_below, unknown_size, no_sizes, node_pool); the log has the text. |
| cpupool_webhook_hosted_priority_following | gauge |  | 1 while HostedClusters and NodePools are followed, 0 while they are missing or cannot be read. |
`)
	return b.String()
}
