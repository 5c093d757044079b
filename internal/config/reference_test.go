package config_test

import (
	"slices"
	"testing"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/testing/reference"
)

// What values are written as.
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
		{Key: "mode", Value: "`enforce` or `observe`", Default: "enforce", Text: "Whether what is decided is written. With observe all is looked at, decided and reported, and nothing is written.", Example: "mode: observe", Restart: true},
		{Key: "partitions[].type", Value: "DNS label", Text: "Workload type of a management pool.", Example: "partitions: [{type: management, cpus: 0-1}]"},
		{Key: "partitions[].cpus", Value: aList + ", `all` or `auto`", Text: "CPUs that no other pool has. With all, the pool has each online CPU that is not guaranteed. With auto, it has the first whole cores of the machine: 2 CPUs of up to 31, and more on larger machines.", Example: "partitions: [{type: management, cpus: 0-1}]"},
		{Key: "partitions[].namespaces", Value: "list of namespaces", Default: "(none)", Text: "Those whose pods may ask for the type; static pods may without.", Example: "partitions: [{type: management, cpus: 0-1, namespaces: [kube-system]}]"},
		{Key: "staticPods", Value: "`allow`, `ignore`, or list of namespaces", Default: "allow", Field: "Config.StaticPods", Example: "staticPods: [kube-system]"},
		{Key: "namespacePermission", Value: "`list` or `annotation`", Default: "list", Text: "What lets pods ask for the workload type of a partition: its list of namespaces alone (list), or annotations of namespaces, too (annotation).", Example: "namespacePermission: annotation", Restart: true},
		{Key: "shared.cpus", Value: aList + ", or `rest`", Default: "rest", Text: "CPUs of the shared pool; rest are those that no other pool lists.", Example: "shared: {cpus: 2-15}"},
		{Key: "infraContainers", Value: "`shared`, or type of a partition", Default: "shared", Text: "Where pause containers run; shared is with their pods.", Example: "partitions: [{type: management, cpus: 0-1}]\ninfraContainers: management"},
	}
}

func entriesOfOwners() []reference.Entry {
	const o = "guaranteed.options."
	return []reference.Entry{
		{Key: "guaranteed.cpus", Value: aList + ", or `none`", Default: "none", Text: "CPUs that whole-CPU containers of Guaranteed pods, and units, get to themselves.", Example: "guaranteed: {cpus: 4-15}"},
		{Key: "guaranteed.from", Value: "`shared`", Default: "(from guaranteed.cpus)", Text: "Takes such CPUs out of the shared pool, owner by owner, instead of from a list.", Example: "guaranteed: {from: shared}"},
		{Key: "guaranteed.floor", Value: "number of CPUs, from 1, or percentage, `1%` to `99%`", Default: "(`1`)", Text: "CPUs that the shared pool keeps, with from: shared. A percentage is a part of the shared pool.", Example: "guaranteed: {from: shared, floor: 4}"},
		{Key: "guaranteed.exclusive", Value: "`cpupoold` or `kubelet`", Default: "cpupoold", Text: "Who gives containers CPUs of their own. With kubelet no other key of guaranteed has a meaning.", Example: "guaranteed: {exclusive: kubelet}", Restart: true},
		{Key: o + "full-pcpus-only", Value: aSwitch, Default: "false", Text: "Whole physical cores only.", Example: "guaranteed: {cpus: 4-15, options: {full-pcpus-only: true}}"},
		{Key: o + "distribute-cpus-across-numa", Value: aSwitch, Default: "false", Text: "As many CPUs from each NUMA node, where a request needs several.", Example: "guaranteed: {cpus: 4-15, options: {distribute-cpus-across-numa: true}}"},
		{Key: o + "align-by-socket", Value: aSwitch, Default: "false", Text: "Aligns to sockets instead of NUMA nodes.", Example: "guaranteed: {cpus: 4-15, options: {align-by-socket: true}}"},
		{Key: o + "distribute-cpus-across-cores", Value: aSwitch, Default: "false", Text: "One thread of as many physical cores as possible.", Example: "guaranteed: {cpus: 4-15, options: {distribute-cpus-across-cores: true}}"},
		{Key: o + "prefer-align-cpus-by-uncorecache", Value: aSwitch, Default: "false", Text: "Few last-level caches before few NUMA nodes.", Example: "guaranteed: {cpus: 4-15, options: {prefer-align-cpus-by-uncorecache: true}}"},
		{Key: o + "topology-policy", Value: "`none`, `best-effort`, `restricted` or `single-numa-node`", Default: "(`best-effort`)", Text: "How much the NUMA nodes of devices, hugepages and memory count.", Example: "guaranteed: {cpus: 4-15, options: {topology-policy: restricted}}"},
		{Key: o + "isolated-cpus", Value: "`prefer`, `require`, `avoid` or `any`", Default: "(`any`)", Text: "The wish for CPUs that the kernel isolates since boot (isolcpus=).", Example: "guaranteed: {cpus: 4-15, options: {isolated-cpus: prefer}}"},
		{Key: o + "core-type", Value: "`performance`, `efficiency`, `prefer-performance`, `prefer-efficiency` or `any`", Default: "(`any`)", Text: "The kind of core on a hybrid machine. On others it counts for nothing.", Example: "guaranteed: {cpus: 4-15, options: {core-type: prefer-performance}}"},
		{Key: o + "one-owner-per-core", Value: aSwitch, Default: "false", Text: "Leaves the threads of a physical core to one owner: those that it does not ask for stay empty.", Example: "guaranteed: {cpus: 4-15, options: {one-owner-per-core: true}}"},
		{Key: o + "strict-cpu-reservation", Value: aSwitch, Default: "true", Text: "Keeps the shared pool off the CPUs of management pools.", Example: "guaranteed: {options: {strict-cpu-reservation: false}}"},
		{Key: "guaranteed.overrides", Value: "list of names of options", Default: "(none)", Text: "Options that pods may choose for themselves by annotations cpupoold.io/NAME. pod-level stands for guaranteed.podLevel.", Example: "guaranteed: {cpus: 4-15, overrides: [topology-policy]}"},
		{Key: "guaranteed.onRefusal", Value: "`auto`, `shared` or `fail`", Default: "auto", Text: "What becomes of a container that is to have CPUs of its own and cannot get them: it runs in the shared pool (shared), it does not run (fail), or fail where the runtime asks first, over NRI (auto).", Example: "guaranteed: {cpus: 4-15, onRefusal: shared}"},
		{Key: "guaranteed.podLevel", Value: "`pod` or `container`", Default: "(`pod`)", Text: "The exclusive CPUs of a Guaranteed pod with pod-level resources (`spec.resources`). With pod, the pod has all its CPUs exclusively, and its containers without whole CPUs share the rest. With container, only containers with whole CPUs have exclusive CPUs.", Example: "guaranteed: {cpus: 4-15, podLevel: container}"},
		{Key: "guaranteed.isolation", Value: "`cpuset`, `partition` or `auto`", Default: "cpuset", Text: "What keeps others off the CPUs of a container that has its own: the sets of all others (cpuset), the kernel besides (partition), or partition from kernel 7.0 on (auto).", Example: "guaranteed: {cpus: 4-15, isolation: auto}"},
		{Key: "guaranteed.park", Value: aSwitch, Default: "false", Field: "Config.Park", Example: "guaranteed: {cpus: 4-15, isolation: partition, park: true}"},
		{Key: "guaranteed.memory", Value: "`any` or `bind`", Default: "any", Text: "With bind the memory of owners is bound to the NUMA nodes of their CPUs.", Example: "guaranteed: {cpus: 4-15, memory: bind}"},
		{Key: "guaranteed.mixed.cpus", Value: "`shared`, or " + aList, Text: "CPUs that owners may have beside their own, if they ask; needed with guaranteed.mixed.namespaces. Nobody gets those of a list to himself.", Example: "guaranteed: {cpus: 4-15, mixed: {cpus: shared, namespaces: [radio]}}"},
		{Key: "guaranteed.mixed.namespaces", Value: "list of namespaces, or `[\"*\"]`", Text: "Those whose pods may ask for such CPUs; needed with guaranteed.mixed.cpus.", Example: "guaranteed: {cpus: 4-15, mixed: {cpus: shared, namespaces: [radio]}}"},
	}
}

func entriesOfHost() []reference.Entry {
	return []reference.Entry{
		{Key: "units.<unit>.cpus", Value: "number of CPUs, from 1", Text: "CPUs that a systemd unit has to itself. A unit has either these or a pool.", Example: "guaranteed: {cpus: 4-15}\nunits: {du.service: {cpus: 4}}"},
		{Key: "units.<unit>.pool", Value: "`shared`, or type of a partition", Text: "The pool in which a systemd unit runs. A unit has either a pool or CPUs.", Example: "units: {telegraf.service: {pool: shared}}"},
		{Key: "hostSlices.enabled", Value: aSwitch, Default: "false", Text: "Confines the services of the host, which are systemd's slices with all that is in them, to a management pool that is a list of CPUs.", Example: "partitions: [{type: management, cpus: 0-1}]\nhostSlices: {enabled: true}"},
		{Key: "hostSlices.pool", Value: "type of a partition", Default: "(`management`)", Text: "The type of the pool to which the services of the host are confined.", Example: "partitions: [{type: host, cpus: 0-1}]\nhostSlices: {enabled: true, pool: host}"},
		{Key: "hostSlices.weight", Value: "CPUWeight of systemd, 1 to 10000", Default: "(left alone)", Text: "CPUWeight of each of the slices.", Example: "hostSlices: {enabled: true, weight: 300}"},
		{Key: "hostSlices.units", Value: someUnits, Default: "(none)", Field: "HostSlices.Units", Example: "hostSlices: {enabled: true, units: [backup.slice]}"},
		{Key: "otherManagers.crioWorkloads", Value: aStance, Default: "refuse", Field: "OtherManagers.CRIOWorkloads", Example: "otherManagers: {crioWorkloads: standDown}"},
		{Key: "otherManagers.crioHighPerformance", Value: aStance, Default: "standDown", Field: "OtherManagers.CRIOHighPerformance", Example: "otherManagers: {crioHighPerformance: refuse}"},
		{Key: "otherManagers.nriPlugins", Value: aStance, Default: "refuse", Field: "OtherManagers.NRIPlugins", Example: "otherManagers: {nriPlugins: standDown}"},
		{Key: "systemPartition", Value: "`auto` or `standDown`", Default: "auto", Field: "Config.SystemPartition", Example: "systemPartition: standDown"},
		{Key: "interrupts.away", Value: "`off`, `annotated` or `exclusive`", Default: "annotated", Text: "Whose CPUs handle no interrupts of devices: those of containers whose pods ask for it (annotated), or of all that have CPUs of their own (exclusive).", Example: "interrupts: {away: exclusive}"},
		{Key: "kernelThreads", Value: "`off` or `exclusive`", Default: "off", Text: "Where threads and unbound work of the kernel run: where the kernel puts them (off), or off CPUs that somebody has for himself, as far as they can be moved (exclusive).", Example: "kernelThreads: exclusive"},
		{Key: "power", Value: "`off`, or list of `cStates`, `governor` and `energyPreference`", Default: "off", Text: "The features of CPUs' power that pods may ask for.", Example: "power: [cStates]"},
	}
}

func entriesOfCluster() []reference.Entry {
	return []reference.Entry{
		{Key: "annotationDomain", Value: aDomain, Default: "workload.openshift.io", Field: "Config.AnnotationDomain", Example: "annotationDomain: cpu.example.com"},
		{Key: "poolDomain", Value: aDomain, Default: "openshift.io", Field: "Config.PoolDomain", Example: "poolDomain: pools.example.com"},
		{Key: "weightFormula", Value: "`auto`, `linear` or `quadratic`", Default: "auto", Text: "How CFS shares become cpu.weight of containers; auto is as the OCI runtime in use does it.", Example: "weightFormula: quadratic"},
		{Key: "podSliceWeights", Value: aSwitch, Default: "true", Field: "Config.PodSliceWeights", Example: "podSliceWeights: false"},
		{Key: "node.enabled", Value: "`auto`, `true` or `false`", Default: "auto", Field: "Node.Enabled", Example: "node: {enabled: false}", Restart: true},
		{Key: "node.name", Value: "name of a Node", Default: "(what NODE_NAME says)", Text: "The name of the Node.", Example: "node: {name: worker-1}", Restart: true},
		{Key: "node.kubeconfig", Value: "absolute path of a file", Default: "(the service account of the pod)", Text: "The file that says how, and as whom, the API server is reached.", Example: "node: {kubeconfig: /etc/cpupoold/kubeconfig}", Restart: true},
		{Key: "node.resources", Value: aSwitch, Default: "true", Field: "Node.Resources", Example: "node: {resources: false}"},
		{Key: "node.condition", Value: aSwitch, Default: "true", Field: "Node.Condition", Example: "node: {condition: false}"},
		{Key: "node.heartbeat", Value: "duration, `1m` to `1h`, or `0`", Default: "0", Text: "How often the condition of the Node is written while it does not change; 0 is never.", Example: "node: {heartbeat: 5m}"},
		{Key: "node.topology", Value: aSwitch, Default: "false", Field: "Node.Topology", Example: "node: {topology: true}"},
		{Key: "node.events", Value: aSwitch, Default: "true", Field: "Node.Events", Example: "node: {events: false}"},
		{Key: "node.startupTaint", Value: "key of a taint, or `none`", Default: "cpupoold.io/starting", Text: "The key of the taint that is removed once the first pass is over.", Example: "node: {startupTaint: none}"},
		{Key: "depletion.action", Value: "`warn`, `taint` or `evict`", Default: "warn", Text: "What is done when the shared pool is depleted: an event and a problem (warn), a condition and a taint besides (taint), for which pods may be evicted (evict).", Example: "depletion: {action: taint, dryRun: false}"},
		{Key: "depletion.floor", Value: "number of CPUs, from 0", Default: "1", Text: "The number of CPUs below which the shared pool is depleted; 0 is never.", Example: "depletion: {floor: 2}"},
		{Key: "depletion.clearAfter", Value: "duration, `1s` to `24h`", Default: "1m", Text: "How long a depleted pool must have had its CPUs again.", Example: "depletion: {clearAfter: 5m}"},
		{Key: "depletion.dryRun", Value: aSwitch, Default: "true", Text: "Says what would be done about depletion beyond warn, and does not do it.", Example: "depletion: {action: evict, dryRun: false}"},
	}
}

func entriesOfDaemon() []reference.Entry {
	return []reference.Entry{
		{Key: "quiet", Value: "duration, `1s` to `24h`, or `0`", Default: "0", Field: "Config.Quiet", Example: "quiet: 10m"},
		{Key: "resyncPeriod", Value: "duration, `1s` to `1h`", Default: "30s", Field: "Config.ResyncPeriod", Example: "resyncPeriod: 1m"},
		{Key: "audit.interval", Value: "duration, `10s` to `24h`, or `off`", Default: "5m", Text: "How often the daemon looks who is on CPUs of somebody else.", Example: "audit: {interval: 1m}"},
		{Key: "kubeletStateDir", Value: aDir, Default: "/var/lib/kubelet", Field: "Config.KubeletStateDir", Example: "kubeletStateDir: /var/lib/k0s/kubelet"},
		{Key: "containerRuntimeEndpoint", Value: "`unix://` URL or absolute path of a socket, or `none`", Default: "(the socket of the kubelet, or of the runtime that answers)", Text: "The CRI socket. With none only systemd units are placed.", Example: "containerRuntimeEndpoint: unix:///run/crio/crio.sock", Restart: true},
		{Key: "podResourcesSocket", Value: "absolute path of a socket, or `none`", Default: "/var/lib/kubelet/pod-resources/kubelet.sock", Text: "The kubelet's PodResources socket, which tells the NUMA nodes of containers' devices and memory. It follows kubeletStateDir.", Example: "podResourcesSocket: none", Restart: true},
		{Key: "nriSocket", Value: "absolute path of a socket, or `none`", Default: "/run/nri/nri.sock", Text: "The runtime's NRI socket, over which it asks before it creates a container.", Example: "nriSocket: none", Restart: true},
		{Key: "stateDir", Value: aDir, Default: "/var/lib/cpupoold", Field: "Config.StateDir", Example: "stateDir: /srv/cpupoold", Restart: true},
		{Key: "runDir", Value: aDir, Default: "/run/cpupoold", Field: "Config.RunDir", Example: "runDir: /run/pools", Restart: true},
		{Key: "listenAddress", Value: "IP address and TCP port", Default: "127.0.0.1:9466", Field: "Config.ListenAddress", Example: "listenAddress: 127.0.0.1:9500", Restart: true},
		{Key: "logLevel", Value: "`debug`, `info`, `warn` or `error`", Default: "info", Text: "The least important level that is logged.", Example: "logLevel: debug", Restart: true},
		{Key: "logFormat", Value: "`text` or `json`", Default: "text", Text: "The form of the log's lines.", Example: "logFormat: json", Restart: true},
	}
}

// TestReference holds docs/reference/configuration.md and cpupoold-config(5) to what the daemon reads.
func TestReference(t *testing.T) {
	comments, err := reference.Comments(".")
	if err != nil {
		t.Fatal(err)
	}
	page := reference.Page{
		Title: "Keys of the configuration of cpupoold",
		Head: []string{
			"One YAML file, by default /etc/cpupoold/config.yaml. What keys do together, and why, is in docs/configuration.md.",
			"Durations are written like 30s, 5m and 1h. CPUs are numbers of logical CPUs, as the kernel has them.",
		},
		Header: "apiVersion: " + config.APIVersion + "\nkind: " + config.Kind + "\n",
		Parse: func(text string) (any, error) {
			return config.Parse([]byte(text), "config.yaml", config.Overrides{}, large())
		},
		Entries: entries(), Comments: comments,
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
