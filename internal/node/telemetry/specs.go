package telemetry

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	buildInfo           = "cpupoold_build_info"
	configStale         = "cpupoold_config_stale"
	configAdapted       = "cpupoold_config_adapted"
	lastSuccess         = "cpupoold_last_successful_pass_timestamp_seconds"
	passes              = "cpupoold_passes_total"
	writes              = "cpupoold_writes_total"
	writeErrors         = "cpupoold_write_errors_total"
	faulty              = "cpupoold_faulty_cgroups"
	sourceState         = "cpupoold_source_state"
	problems            = "cpupoold_problems"
	hostUnit            = "cpupoold_host_unit"
	refusals            = "cpupoold_refusals_total"
	refusedNow          = "cpupoold_refused_containers"
	containers          = "cpupoold_containers"
	containerMode       = "cpupoold_container_isolation"
	containerNoise      = "cpupoold_container_noise_cpus"
	partitions          = "cpupoold_partitions"
	partitionChanges    = "cpupoold_partition_changes_total"
	leakedCPUs          = "cpupoold_leaked_cpus"
	parkedCPUs          = "cpupoold_parked_cpus"
	mixedContainers     = "cpupoold_mixed_containers"
	quietWaits          = "cpupoold_quiet_waiting"
	observedWrites      = "cpupoold_observed_writes"
	poolCPUs            = "cpupoold_pool_cpus"
	offlineCPUs         = "cpupoold_offline_cpus"
	poolFreeCPUs        = "cpupoold_pool_free_cpus"
	poolAllocated       = "cpupoold_pool_allocated_cpus"
	claimCount          = "cpupoold_claims"
	claimCPUs           = "cpupoold_claim_cpus"
	ownerRoom           = "cpupoold_owner_room_cpus"
	poolSeconds         = "cpupoold_pool_cpu_seconds_total"
	poolWait            = "cpupoold_pool_runqueue_wait_seconds_total"
	poolPressure        = "cpupoold_pool_container_pressure_seconds_total"
	poolThrottle        = "cpupoold_pool_container_throttled_seconds_total"
	containerSeconds    = "cpupoold_container_cpu_seconds_total"
	containerRequest    = "cpupoold_container_requested_cpus"
	containerThrottle   = "cpupoold_container_cpu_throttled_seconds_total"
	replyTime           = "cpupoold_reply_seconds"
	shortenedWaits      = "cpupoold_shortened_waits_total"
	driftsTotal         = "cpupoold_drift_total"
	driftsRepaired      = "cpupoold_drift_repaired_total"
	driftsOpen          = "cpupoold_drift_open"
	gatheredTotal       = "cpupoold_gathered_threads_total"
	stuckThreads        = "cpupoold_stuck_threads"
	driftRepair         = "cpupoold_drift_repair_seconds"
	placementTime       = "cpupoold_placement_seconds"
	placementUsage      = "cpupoold_placement_exposure_cpu_seconds"
	containerPressure   = "cpupoold_container_cpu_pressure_seconds_total"
	auditScore          = "cpupoold_audit_score_ratio"
	auditTasks          = "cpupoold_audit_exposed_tasks"
	auditIRQs           = "cpupoold_audit_exposed_interrupts"
	auditOthers         = "cpupoold_audit_foreign_cpu_seconds_total"
	auditInterrupts     = "cpupoold_audit_device_interrupts_total"
	auditScans          = "cpupoold_audit_looks_total"
	auditSeconds        = "cpupoold_audit_cpu_seconds_total"
	liveProgram         = "cpupoold_live_audit_program"
	liveCPUs            = "cpupoold_live_audit_watched_cpus"
	liveWatched         = "cpupoold_live_audit_watched_cpu_seconds_total"
	liveSwitches        = "cpupoold_live_audit_switches_total"
	liveForeign         = "cpupoold_live_audit_foreign_cpu_seconds_total"
	liveForeignSwitches = "cpupoold_live_audit_foreign_switches_total"
	liveReports         = "cpupoold_live_audit_reports_total"
	liveLost            = "cpupoold_live_audit_lost_switches_total"
	liveRuns            = "cpupoold_live_audit_program_runs_total"
	liveRunSeconds      = "cpupoold_live_audit_program_seconds_total"
	quietCPUs           = "cpupoold_interrupt_free_cpus"
	settingsMoved       = "cpupoold_host_settings_moved"
	settingsStuck       = "cpupoold_host_settings_stuck"
	settingsPending     = "cpupoold_host_settings_pending"
	settingWrites       = "cpupoold_host_settings_writes_total"
	nodePressure        = "cpupoold_node_cpu_pressure"
	nodePatches         = "cpupoold_node_patches_total"
	nodeEvents          = "cpupoold_node_events_total"
	nodeResource        = "cpupoold_node_resource_cpus"
	nodeUnaccounted     = "cpupoold_node_unaccounted_cpus"
)

// histogram marks the metrics for which the client library needs its own constructor.
const histogram = prometheus.UntypedValue

type spec struct {
	name, help string
	kind       prometheus.ValueType
	labels     []string
}

// specs describes all metrics. Only labels that name a container have many values.
func specs() []spec {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	pool := []string{"pool", "type"}
	with := func(more ...string) []string { return append(slices.Clip(pool), more...) }
	container := with("namespace", "pod", "container", "container_id")
	return []spec{
		{buildInfo, "Always 1. The labels are the daemon's version, its commit and its Go release.", gauge, []string{"version", "revision", "goversion"}},
		{configStale, "1 while the configuration file has problems and the daemon uses an older configuration.", gauge, nil},
		{configAdapted, "Differences between the configuration file and the configuration in use. They exist if the file does not fit this machine.", gauge, nil},
		{lastSuccess, "Unix time of the last pass after which every cgroup was in the desired state. 0 before the first such pass.", gauge, nil},
		{passes, "Passes over the node, by result. ok: every cgroup was in the desired state afterwards. unavailable: only writes failed to which the container runtime or systemd did not answer. failed: other writes failed.", counter, []string{"result"}},
		{writes, "Writes of settings, by way and result (ok, failed). Ways: file (cgroup file), cri (runtime), dbus (systemd), nri (the runtime writes it before it creates another container).", counter, []string{"via", "result"}},
		{writeErrors, "Failed writes of settings, by way and error. The error is the kernel's name (EBUSY, EINVAL, ...). It is timeout if the runtime or systemd did not answer in time, and other for their own errors.", counter, []string{"via", "errno"}},
		{faulty, "Cgroups that are not in the desired state after the last pass and have no repair in progress. The container or unit is outside its pool, or its weight, quota or memory nodes differ. A cgroup that runs on a part of its CPUs because of a write conflict is not counted: cpupoold_problems with the code Contested shows it.", gauge, nil},
		{sourceState, "1 for the current state of a source of events or hints. The states are ok, polling, absent and lost. polling: the source does not exist here and the daemon polls instead. absent: it does not exist here and other sources replace it. lost: it failed and the daemon reconnects. cri_events is also lost while the runtime does not answer. systemd_units is lost while systemd does not report its units or its reloads. While api_server is lost, the cluster sees old values; the node itself is not affected. While namespaces (namespacePermission: annotation) is lost, new namespaces allow no workload type. application_files is lost while the files for applications cannot be written.", gauge, []string{"source", "state"}},
		{nodeResource, "CPUs advertised to the scheduler, by extended resource (the resource counts thousandths). Absent, as all metrics of the Node, if the daemon does not update the Node.", gauge, []string{"resource"}},
		{nodeUnaccounted, "CPUs that pods use without a request for their resource, by resource. The daemon subtracts them from the advertised CPUs.", gauge, []string{"resource"}},
		{nodePressure, "1 while the shared pool counts as depleted (depletion), also if the daemon only reports it.", gauge, nil},
		{nodePatches, "Patches of the Node, by result: ok, conflict (the Node had changed; the daemon repeats the patch) or failed.", counter, []string{"result"}},
		{nodeEvents, "Events of pods and of the Node, by result (ok, failed).", counter, []string{"result"}},
		{problems, "Problems, by code.", gauge, []string{"code"}},
		{hostUnit, "1 for the state of a unit of host services (hostSlices). With foreign, an administrator has set its CPUs; with inside, it is in another unit with a pool. Other states: confined, holds-pods, absent, unknown.", gauge, []string{"unit", "state"}},
		{refusals, "Containers and units that were refused exclusive CPUs since the daemon's start, by code.", counter, []string{"code"}},
		{refusedNow, "Containers and units that are refused exclusive CPUs now.", gauge, nil},
		{replyTime, "Time from the arrival of a request of the runtime (NRI) to the daemon's reply. Requests: create (before the creation of a container) and start (before its first process continues). Until then, the runtime creates and starts no other container. A request that the runtime cancels counts when the daemon drops it.", histogram, []string{"request"}},
		{shortenedWaits, "Requests of the runtime (NRI) that the daemon decided after less than one second of waiting, because waits of earlier requests had used its time for waiting. Such a container is refused, or gets other CPUs than after a longer wait.", counter, nil},
		{driftsTotal, "External writes to cgroups in the desired state, by cause and by file of the cgroup. Causes: systemd_reload, runtime, kubelet, and unknown without clear evidence. Each write ends as repaired, or its cgroup is removed; the others are in cpupoold_drift_open. Writes of weights, quotas and memory nodes are repaired but not counted while the runtime or systemd records a value for the daemon.", counter, []string{"cause", "property"}},
		{driftsRepaired, "Repaired external writes of cpupoold_drift_total. The cgroups of the other writes were removed before the repair.", counter, []string{"cause", "property"}},
		{driftsOpen, "External writes that are not repaired yet. Writes of a write conflict are not counted while the cgroup runs on its own CPUs only.", gauge, nil},
		{placementTime, "Time from the creation of a new container's cgroup until the kernel confirmed that the container is in its pool, by path. With nri and spec, its CPUs were recorded before; with inotify, event and resync, the daemon found it afterwards. 0 if it was in its pool at the first reading. 0 also if systemd shows that the OCI runtime created the cgroup with these CPUs, because no entrypoint starts before that.", histogram, []string{"path"}},
		{placementUsage, "CPU time of a new container until its placement: an upper bound of its CPU time outside its pool.", histogram, []string{"path"}},
		{driftRepair, "Time from the kernel's report of an external write until the kernel confirmed the repair.", histogram, nil},
		{gatheredTotal, "Threads that the kernel left outside the CPUs of their cgroup (forked during a write of its cpuset) and that the daemon moved back.", counter, nil},
		{stuckThreads, "Threads outside the CPUs of their cgroup that the daemon cannot move back (io_uring workers before kernel 6.12).", gauge, nil},
		{quietCPUs, "Exclusive CPUs that must handle no device interrupts, as their owners request (interrupts.away).", gauge, nil},
		{settingsMoved, "Host settings outside of cgroups with a value of the daemon, by kind. For the kernel's work: default-affinity and irq (affinity of interrupts), rps (receive queues), workqueue, kthread (kernel threads). For irqbalance: irqbalance (1: the daemon bans CPUs). For power: governor, epp (energy preference), cstate (idle states of CPUs).", gauge, []string{"kind"}},
		{settingsStuck, "Host settings without the desired value, by kind and reason. Reasons: immovable (a bound interrupt, or managed by its driver), no-space (the other CPUs have no free vector), busy, no-cpu-left. Also contested (another process writes it), not-taken and failed.", gauge, []string{"kind", "reason"}},
		{settingsPending, "Changes of host settings that the daemon omits in mode: observe, or because it cannot write the undo record.", gauge, nil},
		{settingWrites, "Writes of host settings outside of cgroups, by kind and result (ok, failed).", counter, []string{"kind", "result"}},
		{containers, "Containers and units, by pool and by reason code of their placement.", gauge, with("reason")},
		{containerMode, "Always 1. The label mode is how other tasks are excluded from the exclusive CPUs of the container. With partition-root and partition-isolated the kernel excludes them, with cpuset the cpusets of all other containers do.", gauge, append(slices.Clip(container), "mode")},
		{containerNoise, "Exclusive CPUs of a container on which the kernel does work, by source. balancing is load balancing of the scheduler. tick is the timer tick while one thread runs. rcu is RCU callbacks, managed_irq managed interrupts of drivers. Only kernel arguments end the last three; cpupoold plan prints them.", gauge, append(slices.Clip(container), "source")},
		{partitions, "Containers with a desired cpuset partition, by state. In root and isolated it is in force; in underway it soon will be. In waits (for CPUs that are offline or not released yet) and refused, only cpusets protect the CPUs.", gauge, []string{"state"}},
		{partitionChanges, "Changes of cpuset partitions (cpuset.cpus.partition) that the kernel accepted. At each change the kernel rebuilds its scheduling domains, which briefly disturbs all CPUs of the machine.", counter, nil},
		{leakedCPUs, "Online CPUs that are in no cgroup. They are not allocated until the machine boots.", gauge, nil},
		{mixedContainers, "Containers that run on shared CPUs in addition to their exclusive CPUs (guaranteed.mixed).", gauge, nil},
		{parkedCPUs, "Free guaranteed CPUs that parking holds: the kernel excludes all tasks from them (guaranteed.park).", gauge, nil},
		{observedWrites, "Writes that the daemon omits in mode: observe, by way (file, cri, dbus). Absent in mode: enforce.", gauge, []string{"via"}},
		{quietWaits, "Changes that the quiet period (quiet) defers, by kind: cpus (released CPUs that stay outside the shared pool or are not parked yet), weights (values of external writes).", gauge, []string{"kind"}},
		{auditScore, "Share of the CPU time of a pool, between the last two scans of the audit (audit.interval), that no foreign task used. A task is foreign if it does not belong on the CPUs. In the guaranteed pool, only exclusive CPUs count; the score is absent while no owner has any.", gauge, pool},
		{auditTasks, "Foreign tasks that may run on CPUs of a pool, whether or not they ran. The kernel's own work for a CPU is not counted.", gauge, pool},
		{auditIRQs, "Device interrupts that have fired and may fire on exclusive CPUs.", gauge, pool},
		{auditOthers, "CPU time of foreign tasks on CPUs of a pool. Sampled by scans: the time since the previous scan counts for the CPU on which the task is now.", counter, pool},
		{auditInterrupts, "Device interrupts on exclusive CPUs, as the kernel counts them.", counter, pool},
		{auditScans, "Scans of the audit over all tasks of the machine, by result (ok, failed). Absent, as all metrics of the audit, with audit.interval: off.", counter, []string{"result"}},
		{auditSeconds, "CPU time that the scans of the audit used.", counter, nil},
		{liveProgram, "1 for the state of the program of the live audit (audit.live): btf, tracepoint or unavailable. In btf the program uses the kernel's type information; in tracepoint it runs without it. In unavailable the kernel refuses the program, and only the sampled audit runs. Absent, as all metrics of the live audit, with audit.live: false.", gauge, []string{"program"}},
		{liveCPUs, "Exclusive CPUs that the live audit watches now. A CPU is watched while its owner runs and no handover is in progress.", gauge, nil},
		{liveWatched, "Time in which the live audit watched exclusive CPUs, as the sum over the CPUs.", counter, nil},
		{liveSwitches, "Task switches on watched CPUs, with the switches of the owners.", counter, nil},
		{liveForeign, "CPU time of foreign tasks on watched CPUs, as the kernel's scheduler sees it. The kind user is a process. kernel_bound is a kernel thread that can run on this CPU only, and follows the work of the owner. kernel_other is another kernel thread. unknown is a task of the root cgroup that ended before its kind was read. Interrupts are no tasks.", counter, []string{"kind"}},
		{liveForeignSwitches, "Switches of the scheduler away from foreign tasks on watched CPUs, by kind as in cpupoold_live_audit_foreign_cpu_seconds_total.", counter, []string{"kind"}},
		{liveReports, "Foreign tasks that the live audit reported: at most one of a kind for each CPU in ten seconds. Kernel threads that are bound to their CPU are not reported.", counter, nil},
		{liveLost, "Switches of foreign tasks that no finding names, because too many different tasks ran between two readings. The other metrics count them.", counter, nil},
		{liveRuns, "Runs of the program of the live audit. Absent unless the kernel's statistics of eBPF programs are on (sysctl kernel.bpf_stats_enabled).", counter, nil},
		{liveRunSeconds, "Time of the runs in cpupoold_live_audit_program_runs_total.", counter, nil},
		{claimCount, "ResourceClaims for CPUs, by state: used (by a container), prepared (no container uses the claim yet) or refused (it has no CPUs). Absent, as cpupoold_claim_cpus, without guaranteed.claims and without claims.", gauge, []string{"state"}},
		{claimCPUs, "CPUs for ResourceClaims (guaranteed.claims), by device and state. allocated and free are online. offline: a claim has the CPU, and it is offline or a pool without other online CPUs uses it. The device is empty for offline CPUs that no claim has, because the kernel does not report their NUMA node.", gauge, []string{"device", "state"}},
		{poolCPUs, "Online CPUs of a pool. Management pools of type all overlap the others. The pool claims has the CPUs of guaranteed.claims. If guaranteed.claims.idle is shared, it overlaps the shared pool.", gauge, pool},
		{poolFreeCPUs, "CPUs of the guaranteed pool without an owner.", gauge, nil},
		{poolAllocated, "Allocated CPUs of a pool. In the guaranteed pool these are exclusive CPUs, in the pool claims CPUs of ResourceClaims. In the others it is the sum of the CPU requests that the runtime reports for their containers, which can exceed the pool.", gauge, pool},
		{ownerRoom, "Free capacity of the guaranteed pool for one owner, by the part that must contain its CPUs: pool, numa_node, l3 (one cache) or whole_cores (whole cores of one NUMA node). CPUs that the shared pool keeps (guaranteed.floor) do not count. A value far below the value of pool shows fragmentation; cpupoold plan --defrag prints moves against it.", gauge, []string{"within"}},
		{offlineCPUs, "Offline CPUs of pools. cpupoold_problems with the code Offline shows the owners that lack CPUs for this reason.", gauge, nil},
		{poolSeconds, "Time of the pool's CPUs by mode (/proc/stat) since the daemon's start, host processes included. A CPU that changes pools counts for its new pool from the next scrape.", counter, with("mode")},
		{poolWait, "Time that runnable tasks waited for the pool's CPUs (run_delay of /proc/schedstat) since the daemon's start, host processes included. Absent on kernels without schedstats.", counter, pool},
		{poolPressure, "Time that containers of the pool were stalled for lack of CPU (total of cpu.pressure, kinds some and full). Sum over its containers, each from its first scrape. Absent if PSI is off.", counter, with("kind")},
		{poolThrottle, "Time that quotas throttled containers of the pool (throttled_usec of cpu.stat). Sum over its containers, each from its first scrape.", counter, pool},
		{containerSeconds, "CPU time of a container (usage_usec of cpu.stat).", counter, container},
		{containerRequest, "CPUs that a container of a management pool requests: its cpushares divided by 1024. The webhook has moved this request away from cpu. The rate of cpupoold_container_cpu_seconds_total divided by it is the CPU use relative to cpushares. Absent for containers without a request (no cpushares, or at most 2).", gauge, container},
		{containerThrottle, "Time that its quota throttled a container (throttled_usec of cpu.stat).", counter, container},
		{containerPressure, "Time that a container was stalled for lack of CPU (total of cpu.pressure, kinds some and full). Absent if PSI is off.", counter, append(slices.Clip(container), "kind")},
	}
}
