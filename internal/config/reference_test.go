package config_test

import (
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

// The forms of values.
const (
	aList     = "list of CPUs such as `0-3,8`"
	aSwitch   = "`true` or `false`"
	aDomain   = "DNS subdomain"
	aDir      = "absolute path of a directory"
	someUnits = "list of systemd units"
	aStance   = "`refuse` or `standDown`; one word for the whole of `otherManagers` stands for all three"
)

// entries are all keys, in the order of a file.
func entries() []reference.Entry {
	return slices.Concat(entriesOfPools(), entriesOfOwners(), entriesOfHost(), entriesOfCluster(), entriesOfDaemon())
}

func entriesOfPools() []reference.Entry {
	return []reference.Entry{
		{Key: "apiVersion", Value: "`config.cpupoold.io/v1alpha1`", Text: "Version of the file's format.", Example: "apiVersion: config.cpupoold.io/v1alpha1"},
		{Key: "kind", Value: "`CPUPoolConfiguration`", Text: "Kind of the file.", Example: "kind: CPUPoolConfiguration"},
		{Key: "mode", Value: "`enforce` or `observe`", Default: "enforce", Text: "`enforce` writes the desired state. `observe` decides and reports, and writes nothing.", Example: "mode: observe", Restart: true},
		{Key: "partitions[].type", Value: "DNS label", Text: "Workload type of a management pool.", Example: "partitions: [{type: management, cpus: 0-1}]"},
		{Key: "partitions[].cpus", Value: aList + ", `all` or `auto`", Text: "CPUs that no other pool has. With `all`, the pool has each online CPU that is neither guaranteed nor for claims. With `auto`, it has the first whole cores of the machine: 2 CPUs of up to 31, and more on larger machines.", Example: "partitions: [{type: management, cpus: 0-1}]"},
		{Key: "partitions[].namespaces", Value: "list of namespaces", Default: "(none)", Text: "Namespaces with permission for the type. Static pods do not need it.", Example: "partitions: [{type: management, cpus: 0-1, namespaces: [kube-system]}]"},
		{Key: "staticPods", Value: "`allow`, `ignore`, or list of namespaces", Default: "allow", Text: "The static pods that can request the workload type of a partition, independent of partitions[].namespaces.", Example: "staticPods: [kube-system]"},
		{Key: "namespacePermission", Value: "`list` or `annotation`", Default: "list", Text: "Source of the permission to request a workload type: partitions[].namespaces (`list`), or also annotations of namespaces (`annotation`).", Example: "namespacePermission: annotation", Restart: true},
		{Key: "shared.cpus", Value: aList + ", or `rest`", Default: "rest", Text: "CPUs of the shared pool. `rest` is each CPU that no other pool lists.", Example: "shared: {cpus: 2-15}"},
		{Key: "infraContainers", Value: "`shared`, or type of a partition", Default: "shared", Text: "Pool of pause containers. `shared` is the shared pool, or the pool of the workload type of their pod. A type is the pool for all of them, as infra_ctr_cpuset of CRI-O. Pause containers that another manager places are excluded.", Example: "partitions: [{type: management, cpus: 0-1}]\ninfraContainers: management"},
	}
}

func entriesOfOwners() []reference.Entry {
	const o = "guaranteed.options."
	return []reference.Entry{
		{Key: "guaranteed.cpus", Value: aList + ", or `none`", Default: "none", Text: "CPUs for exclusive use by units, and by whole-CPU containers of Guaranteed pods.", Example: "guaranteed: {cpus: 4-15}"},
		{Key: "guaranteed.from", Value: "`shared`", Default: "(from guaranteed.cpus)", Text: "Takes exclusive CPUs out of the shared pool, owner by owner, instead of from a list.", Example: "guaranteed: {from: shared}"},
		{Key: "guaranteed.floor", Value: "number of CPUs, from 1, or percentage, `1%` to `99%`", Default: "(`1`)", Text: "CPUs that remain in the shared pool, with `from: shared`. The daemon refuses a request that would leave less. A percentage is a part of the shared pool.", Example: "guaranteed: {from: shared, floor: 4}"},
		{Key: "guaranteed.exclusive", Value: "`cpupoold` or `kubelet`", Default: "cpupoold", Text: "The program that allocates exclusive CPUs. With `kubelet`, no other key of guaranteed can be set.", Example: "guaranteed: {exclusive: kubelet}", Restart: true},
		{Key: o + "full-pcpus-only", Value: aSwitch, Default: "false", Text: "Whole physical cores only: refuses a request that is no multiple of the threads of a core.", Example: "guaranteed: {cpus: 4-15, options: {full-pcpus-only: true}}"},
		{Key: o + "distribute-cpus-across-numa", Value: aSwitch, Default: "false", Text: "Equal numbers of CPUs from each NUMA node, if a request needs several nodes.", Example: "guaranteed: {cpus: 4-15, options: {distribute-cpus-across-numa: true}}"},
		{Key: o + "align-by-socket", Value: aSwitch, Default: "false", Text: "Aligns to sockets instead of NUMA nodes. Not with `topology-policy: single-numa-node`, nor on a machine with more sockets than NUMA nodes.", Example: "guaranteed: {cpus: 4-15, options: {align-by-socket: true}}"},
		{Key: o + "distribute-cpus-across-cores", Value: aSwitch, Default: "false", Text: "One thread of as many physical cores as possible, on no more NUMA nodes than without this option. Not with full-pcpus-only, distribute-cpus-across-numa or prefer-align-cpus-by-uncorecache.", Example: "guaranteed: {cpus: 4-15, options: {distribute-cpus-across-cores: true}}"},
		{Key: o + "prefer-align-cpus-by-uncorecache", Value: aSwitch, Default: "false", Text: "Few last-level caches before few NUMA nodes. Not with distribute-cpus-across-numa.", Example: "guaranteed: {cpus: 4-15, options: {prefer-align-cpus-by-uncorecache: true}}"},
		{Key: o + "topology-policy", Value: "`none`, `best-effort`, `restricted` or `single-numa-node`", Default: "(`best-effort`)", Text: "Effect of the NUMA nodes of devices, hugepages and memory: none, a preference (`best-effort`), or refusal of other nodes (`restricted`, `single-numa-node`), as topologyManagerPolicy of the kubelet.", Example: "guaranteed: {cpus: 4-15, options: {topology-policy: restricted}}"},
		{Key: o + "isolated-cpus", Value: "`prefer`, `require`, `avoid` or `any`", Default: "(`any`)", Text: "Use of CPUs that the kernel isolates since boot (isolcpus=).", Example: "guaranteed: {cpus: 4-15, options: {isolated-cpus: prefer}}"},
		{Key: o + "core-type", Value: "`performance`, `efficiency`, `prefer-performance`, `prefer-efficiency` or `any`", Default: "(`any`)", Text: "The kind of core on a hybrid machine. Other machines ignore it.", Example: "guaranteed: {cpus: 4-15, options: {core-type: prefer-performance}}"},
		{Key: o + "one-owner-per-core", Value: aSwitch, Default: "false", Text: "Never two owners on one physical core. Threads that the owner does not request stay idle.", Example: "guaranteed: {cpus: 4-15, options: {one-owner-per-core: true}}"},
		{Key: o + "strict-cpu-reservation", Value: aSwitch, Default: "true", Text: "Excludes the shared pool from the CPUs of management pools. With `false` the shared pool extends over them. Exclusive CPUs never come from them.", Example: "guaranteed: {options: {strict-cpu-reservation: false}}"},
		{Key: "guaranteed.overrides", Value: "list of names of options", Default: "(none)", Text: "Options that pods can choose by annotations `cpupoold.io/NAME`; not strict-cpu-reservation. pod-level stands for guaranteed.podLevel.", Example: "guaranteed: {cpus: 4-15, overrides: [topology-policy]}"},
		{Key: "guaranteed.onRefusal", Value: "`auto`, `shared` or `fail`", Default: "auto", Text: "Effect of too few free CPUs: the container runs in the shared pool until enough are free (`shared`), or it does not run (`fail`). `auto` is `fail` with NRI, and `shared` without. A container that has started is stopped only with `fail` and without NRI, directly after its start.", Example: "guaranteed: {cpus: 4-15, onRefusal: shared}"},
		{Key: "guaranteed.podLevel", Value: "`pod` or `container`", Default: "(`pod`)", Text: "The exclusive CPUs of a Guaranteed pod with pod-level resources (`spec.resources`). With pod, the pod has all its CPUs exclusively, and its containers without whole CPUs share the rest. With container, only containers with whole CPUs have exclusive CPUs.", Example: "guaranteed: {cpus: 4-15, podLevel: container}"},
		{Key: "guaranteed.isolation", Value: "`cpuset`, `partition` or `auto`", Default: "cpuset", Text: "Protection of exclusive CPUs: the cpusets of other containers and units (`cpuset`), in addition a cpuset partition (`partition`), or partition from kernel 7.0 on (`auto`).", Example: "guaranteed: {cpus: 4-15, isolation: auto}"},
		{Key: "guaranteed.park", Value: aSwitch, Default: "false", Text: "Holds free guaranteed CPUs in a cpuset partition without tasks. It needs a list in guaranteed.cpus, and an isolation with partitions.", Example: "guaranteed: {cpus: 4-15, isolation: partition, park: true}"},
		{Key: "guaranteed.memory", Value: "`any` or `bind`", Default: "any", Text: "With `bind`, the memory of owners is bound to the NUMA nodes of their CPUs (cpuset.mems). The kernel moves present memory, which takes time. `any` restores the earlier nodes.", Example: "guaranteed: {cpus: 4-15, memory: bind}"},
		{Key: "guaranteed.mixed.cpus", Value: "`shared`, or " + aList, Text: "CPUs that owners can use in addition to their own, on request. CPUs of a list are never exclusive. Needed with guaranteed.mixed.namespaces.", Example: "guaranteed: {cpus: 4-15, mixed: {cpus: shared, namespaces: [radio]}}"},
		{Key: "guaranteed.mixed.namespaces", Value: "list of namespaces, or `[\"*\"]`", Text: "Namespaces with permission to request such CPUs. Needed with guaranteed.mixed.cpus.", Example: "guaranteed: {cpus: 4-15, mixed: {cpus: shared, namespaces: [radio]}}"},
		{Key: "guaranteed.claims.cpus", Value: aList, Text: "CPUs for ResourceClaims alone: no other pool has them, and claims get no other CPUs. With full-pcpus-only or one-owner-per-core, only whole cores. They are not part of the extended resources. Needed with guaranteed.claims.idle.", Example: "guaranteed: {cpus: 4-7, claims: {cpus: 8-15}}"},
		{Key: "guaranteed.claims.idle", Value: "`unused` or `shared`", Default: "unused", Text: "Use of the CPUs of guaranteed.claims.cpus that no claim has: no container runs on them (`unused`), or the shared pool has them until a claim gets them (`shared`).", Example: "guaranteed: {claims: {cpus: 8-15, idle: shared}}"},
	}
}

func entriesOfHost() []reference.Entry {
	return []reference.Entry{
		{Key: "units.<unit>.cpus", Value: "number of CPUs, from 1", Text: "Number of exclusive CPUs of a systemd unit. A unit has either CPUs or a pool.", Example: "guaranteed: {cpus: 4-15}\nunits: {du.service: {cpus: 4}}"},
		{Key: "units.<unit>.pool", Value: "`shared`, or type of a partition", Text: "The pool in which a systemd unit runs. A unit has either a pool or CPUs.", Example: "units: {telegraf.service: {pool: shared}}"},
		{Key: "hostSlices.enabled", Value: aSwitch, Default: "false", Text: "Confines host services to a management pool with a list of CPUs: init.scope, and the slices machine, system and user with all units in them.", Example: "partitions: [{type: management, cpus: 0-1}]\nhostSlices: {enabled: true}"},
		{Key: "hostSlices.pool", Value: "type of a partition", Default: "(`management`)", Text: "Type of the pool for host services. While none of its CPUs is online, the shared pool.", Example: "partitions: [{type: host, cpus: 0-1}]\nhostSlices: {enabled: true, pool: host}"},
		{Key: "hostSlices.weight", Value: "CPUWeight of systemd, 1 to 10000", Default: "(left alone)", Text: "CPUWeight of each of the slices.", Example: "hostSlices: {enabled: true, weight: 300}"},
		{Key: "hostSlices.units", Value: someUnits, Default: "(none)", Text: "Slices and services that are confined in addition to init.scope and the slices machine, system and user.", Example: "hostSlices: {enabled: true, units: [backup.slice]}"},
		{Key: "otherManagers.crioWorkloads", Value: aStance, Default: "refuse", Text: "Tables [crio.runtime.workloads] of CRI-O that set CPUs or shares. With refuse, the daemon does not start. With standDown, it excludes the containers of the other manager.", Example: "otherManagers: {crioWorkloads: standDown}"},
		{Key: "otherManagers.crioHighPerformance", Value: aStance, Default: "standDown", Text: "Runtime handlers of CRI-O with the annotations cpu-load-balancing.crio.io or cpu-shared.crio.io.", Example: "otherManagers: {crioHighPerformance: refuse}"},
		{Key: "otherManagers.nriPlugins", Value: aStance, Default: "refuse", Text: "Other NRI plugins that set the cpuset of containers.", Example: "otherManagers: {nriPlugins: standDown}"},
		{Key: "systemPartition", Value: "`auto` or `standDown`", Default: "auto", Text: "Pods in the kubelet's system partition. `auto` places them, unless the partition has a cpuset. `standDown` never places them.", Example: "systemPartition: standDown"},
		{Key: "interrupts.away", Value: "`off`, `annotated` or `exclusive`", Default: "annotated", Text: "Owners with CPUs that handle no interrupts of devices: containers of pods that request it (`annotated`), all owners (`exclusive`), or none (`off`).", Example: "interrupts: {away: exclusive}"},
		{Key: "kernelThreads", Value: "`off` or `exclusive`", Default: "off", Text: "With `exclusive`, movable kernel threads and unbound work run outside of exclusive CPUs. With `off`, the daemon does not move them.", Example: "kernelThreads: exclusive"},
		{Key: "power", Value: "`off`, or list of `cStates`, `governor` and `energyPreference`", Default: "off", Text: "Power features of exclusive CPUs that pods can request.", Example: "power: [cStates]"},
	}
}

func entriesOfCluster() []reference.Entry {
	return []reference.Entry{
		{Key: "annotationDomain", Value: aDomain, Default: "workload.openshift.io", Text: "Domain of the annotations of pods and namespaces.", Example: "annotationDomain: cpu.example.com"},
		{Key: "poolDomain", Value: aDomain, Default: "openshift.io", Text: "Domain of the extended resources of the shared and the guaranteed pool. cpupool-webhook needs the same value.", Example: "poolDomain: pools.example.com"},
		{Key: "weightFormula", Value: "`auto`, `linear` or `quadratic`", Default: "auto", Text: "Conversion of CFS shares to cpu.weight: `linear` (runc up to 1.3.1, crun up to 1.22), `quadratic` (later ones), or the formula of the OCI runtime in use (`auto`).", Example: "weightFormula: quadratic"},
		{Key: "podSliceWeights", Value: aSwitch, Default: "true", Text: "Adapts the weight of the slice of a pod, if annotations change the shares of its containers.", Example: "podSliceWeights: false"},
		{Key: "node.enabled", Value: "`auto`, `true` or `false`", Default: "auto", Text: "Use of an API server. `auto`: with node.kubeconfig, or in a pod with a service account and NODE_NAME; not with `containerRuntimeEndpoint: none`. With `auto`, the daemon waits for a missing node.kubeconfig. With `true`, it does not start without access.", Example: "node: {enabled: false}", Restart: true},
		{Key: "node.name", Value: "name of a Node", Default: "(NODE_NAME)", Text: "The name of the Node.", Example: "node: {name: worker-1}", Restart: true},
		{Key: "node.kubeconfig", Value: "absolute path of a file", Default: "(the service account of the pod)", Text: "File with a server, its certificate authority, and a token or a client certificate. The daemon reads changed files again. Exec plugins are not supported.", Example: "node: {kubeconfig: /etc/cpupoold/kubeconfig}", Restart: true},
		{Key: "node.resources", Value: aSwitch, Default: "true", Text: "Advertises the extended resources of the pools. `false` withdraws them.", Example: "node: {resources: false}"},
		{Key: "node.condition", Value: aSwitch, Default: "true", Text: "Sets the condition CPUPoolsReady of the Node.", Example: "node: {condition: false}"},
		{Key: "node.heartbeat", Value: "duration, `1m` to `1h`, or `0`", Default: "0", Text: "Interval of writes of an unchanged condition; 0 is never. Each is a write to etcd from each node.", Example: "node: {heartbeat: 5m}"},
		{Key: "node.topology", Value: aSwitch, Default: "false", Text: "Maintains a NodeResourceTopology object of the node, with the free guaranteed CPUs of each NUMA node.", Example: "node: {topology: true}"},
		{Key: "node.events", Value: aSwitch, Default: "true", Text: "Writes events for pods that do not get their CPUs.", Example: "node: {events: false}"},
		{Key: "node.startupTaint", Value: "key of a taint, or `none`", Default: "cpupoold.io/starting", Text: "Key of the taint that the daemon removes after its first pass. cpupoold never sets it.", Example: "node: {startupTaint: none}"},
		{Key: "depletion.action", Value: "`warn`, `taint` or `evict`", Default: "warn", Text: "Reaction to a depleted shared pool: an event and a problem (`warn`); in addition a condition and a taint (`taint`); in addition the eviction of pods (`evict`).", Example: "depletion: {action: taint, dryRun: false}"},
		{Key: "depletion.floor", Value: "number of CPUs, from 0", Default: "1", Text: "The number of CPUs below which the shared pool is depleted; 0 is never.", Example: "depletion: {floor: 2}"},
		{Key: "depletion.clearAfter", Value: "duration, `1s` to `24h`", Default: "1m", Text: "Time that the pool must have enough CPUs again before the depletion ends.", Example: "depletion: {clearAfter: 5m}"},
		{Key: "depletion.dryRun", Value: aSwitch, Default: "true", Text: "Reports the reactions beyond `warn`, without them.", Example: "depletion: {action: evict, dryRun: false}"},
	}
}

func entriesOfDaemon() []reference.Entry {
	return []reference.Entry{
		{Key: "quiet", Value: "duration, `1s` to `24h`, or `0`", Default: "0", Text: "Maximum delay of optional writes while a container has exclusive CPUs; 0 is no delay.", Example: "quiet: 10m"},
		{Key: "resyncPeriod", Value: "duration, `1s` to `1h`", Default: "30s", Text: "Longest time between two passes without events. It limits how long a lost event stays unnoticed. The daemon reads each watched cgroup again in about eight periods or 4m, the shorter of both, at most once a period.", Example: "resyncPeriod: 1m"},
		{Key: "audit.interval", Value: "duration, `10s` to `24h`, or `off`", Default: "5m", Text: "Interval of audits: the daemon searches for tasks on the CPUs of other owners.", Example: "audit: {interval: 1m}"},
		{Key: "audit.live", Value: "`true` or `false`", Default: "false", Text: "An eBPF program at each task switch counts the tasks of others on exclusive CPUs. It needs CAP_BPF and CAP_PERFMON. Its cost on hardware is unknown. Not in `mode: observe`.", Example: "audit: {live: true}"},
		{Key: "kubeletStateDir", Value: aDir, Default: "/var/lib/kubelet", Text: "Directory of the kubelet's configuration, CPU manager state and record of pods.", Example: "kubeletStateDir: /var/lib/k0s/kubelet"},
		{Key: "containerRuntimeEndpoint", Value: "`unix://` URL or absolute path of a socket, or `none`", Default: "(the socket of the kubelet, or of the runtime that answers)", Text: "CRI socket. With `none`, the daemon places only systemd units. Without a kubelet, the default is the runtime that answers, or the only one with pods.", Example: "containerRuntimeEndpoint: unix:///run/crio/crio.sock", Restart: true},
		{Key: "podResourcesSocket", Value: "absolute path of a socket, or `none`", Default: "/var/lib/kubelet/pod-resources/kubelet.sock", Text: "PodResources socket of the kubelet, for the NUMA nodes of devices and memory. It follows kubeletStateDir.", Example: "podResourcesSocket: none", Restart: true},
		{Key: "nriSocket", Value: "absolute path of a socket, or `none`", Default: "/run/nri/nri.sock", Text: "NRI socket of the runtime, for requests before the creation of a container.", Example: "nriSocket: none", Restart: true},
		{Key: "stateDir", Value: aDir, Default: "/var/lib/cpupoold", Text: "Directory of the journal. It must survive a reboot.", Example: "stateDir: /srv/cpupoold", Restart: true},
		{Key: "runDir", Value: aDir, Default: "/run/cpupoold", Text: "Directory of the lock, of the files for applications, and of the control socket.", Example: "runDir: /run/pools", Restart: true},
		{Key: "listenAddress", Value: "IP address and TCP port", Default: "127.0.0.1:9466", Text: "Address of /metrics, /healthz and /readyz, which have no authentication.", Example: "listenAddress: 127.0.0.1:9500", Restart: true},
		{Key: "logLevel", Value: "`debug`, `info`, `warn` or `error`", Default: "info", Text: "Lowest level of log records.", Example: "logLevel: debug", Restart: true},
		{Key: "logFormat", Value: "`text` or `json`", Default: "text", Text: "Format of the log.", Example: "logFormat: json", Restart: true},
	}
}

// TestReference compares docs/reference/configuration.md and cpupoold-config(5) with the
// daemon's keys.
func TestReference(t *testing.T) {
	page := reference.Page{
		Title: "Keys of the configuration of cpupoold",
		Head: []string{
			"This page lists each key of the configuration of the daemon. The configuration is one YAML file, by default /etc/cpupoold/config.yaml. Flags override keys of the same name.",
			"The daemon reads the file again after a change, and on SIGHUP. If the file has faults or is missing, the configuration in force stays, and the metric cpupoold_config_stale is 1. Unknown and repeated keys are faults.",
			"Write durations like 30s, 5m and 1h. CPUs are numbers of logical CPUs of the kernel.",
		},
		Header: "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n",
		Parse: func(text string) (any, error) {
			return config.Parse([]byte(text), "config.yaml", config.Overrides{}, large())
		},
		Entries: entries(),
	}
	var keys []string
	for key := range everyKey(t) {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, problem := range page.Check(keys) {
		t.Error(problem)
	}
	page.Hold(t, *update, "../../docs/reference/configuration.md", "../../docs/reference/man/cpupoold-config.5", "go test ./internal/config -run TestReference -update")
}
