// Package config reads the configuration file of the daemon.
//
// Settings have three sources: the defaults (Default), a YAML file similar to the
// kubelet's (Load), and flags (Overrides). Later sources override earlier ones. All
// problems are reported at once, each with file, line, key, value and remedy. A
// configuration with problems is never used in part.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/poolspec"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// APIVersion and Kind identify a configuration file.
const (
	APIVersion = "config.cpupoold.io/v1alpha1"
	Kind       = "CPUPoolConfiguration"
)

// Config holds all settings of an operator. Each field names its key in the file.
type Config struct {
	// Mode (mode) selects whether the daemon writes its decisions. Default: enforce.
	Mode Mode

	// Pools are the keys partitions, shared, guaranteed and units. Resolve checks
	// them against a machine.
	Pools poolspec.Spec

	// StaticPods (staticPods) selects the static pods that may request the workload type of a
	// partition. Its namespaces do not restrict them. Default: all static pods.
	StaticPods pools.StaticPods
	// NamespacePermission (namespacePermission) selects the permission by which pods may request
	// the workload type of a partition. Default: list.
	NamespacePermission Permission
	// OnRefusal (guaranteed.onRefusal) selects the effect of a refusal of exclusive CPUs on the
	// container. Default: auto.
	OnRefusal OnRefusal

	// HostSlices (hostSlices) selects the CPUs of host services.
	HostSlices HostSlices

	// OtherManagers (otherManagers) selects the reaction to other managers of CPUs.
	OtherManagers OtherManagers
	// SystemPartition (systemPartition) selects what the daemon does with pods in the kubelet's
	// system partition. Default: auto.
	SystemPartition SystemPartition

	// Isolation (guaranteed.isolation) selects the protection of exclusive CPUs. Default: cpuset.
	Isolation Isolation

	// Park (guaranteed.park) makes the kernel exclude all tasks from free CPUs of the guaranteed
	// pool. It needs a list in guaranteed.cpus and an Isolation with partitions. Default: false.
	Park bool

	// AnnotationDomain (annotationDomain) is the domain of the annotations of
	// pods and namespaces. Default: workload.openshift.io, so that
	// manifests for OpenShift work unchanged.
	AnnotationDomain string

	// PoolDomain (poolDomain) is the domain of the extended resources by which the
	// scheduler counts the shared and the guaranteed pool. Default: openshift.io.
	PoolDomain string

	// RuntimeEndpoint (containerRuntimeEndpoint) is the CRI socket, a
	// unix:// URL or an absolute path. Default: empty, which means the endpoint
	// of the kubelet, and without a kubelet the runtime that answers at one of the
	// usual paths. "none" means a machine without a runtime. Then the daemon places
	// only systemd units: see HasRuntime.
	RuntimeEndpoint string

	// KubeletStateDir (kubeletStateDir) is the directory with the kubelet's
	// configuration and the state of its CPU manager. The daemon reads them to detect a
	// second manager of cpusets. Default: /var/lib/kubelet.
	KubeletStateDir string

	// PodResourcesSocket (podResourcesSocket) is the absolute path of the
	// kubelet's PodResources socket, which reports the NUMA nodes of containers'
	// devices and memory. Empty ("none" in the file) means no socket. Default:
	// pod-resources/kubelet.sock in KubeletStateDir, or empty without a runtime.
	PodResourcesSocket string

	// NRISocket (nriSocket) is the absolute path of the runtime's NRI socket. Over it the runtime
	// asks before it creates a container. Empty ("none" in the file) means no socket. Default:
	// /run/nri/nri.sock, or empty without a runtime.
	NRISocket string

	// StateDir (stateDir) holds the journal with the original values. It must survive a
	// reboot. Default: /var/lib/cpupoold.
	StateDir string

	// RunDir (runDir) holds the lock against a second daemon, the files with the CPUs of
	// applications, and the control socket. It must not survive a reboot. Default:
	// /run/cpupoold.
	RunDir string

	// ListenAddress (listenAddress) is host:port of /metrics, /healthz and
	// /readyz. They are not authenticated. Default: 127.0.0.1:9466.
	ListenAddress string

	// ResyncPeriod (resyncPeriod) is the maximum time between two passes on an idle node,
	// 1s..1h. It bounds the time until the daemon notices a lost event of the runtime, or tasks on
	// wrong CPUs. The kernel reports other writes to watched cgroups at once. The daemon also reads
	// these cgroups in turns: each once in eight periods or 4m, whichever is less, and at most once
	// in a period. Default: 30s.
	ResyncPeriod time.Duration

	// Quiet (quiet) is the maximum delay of optional writes while an owner has exclusive CPUs,
	// 1s..24h; 0 is no delay. Default: 0.
	Quiet time.Duration

	// WeightFormula (weightFormula) converts CFS shares to cpu.weight for
	// containers. Default: auto.
	WeightFormula WeightFormula

	// PodSliceWeights (podSliceWeights) gives the slice of a pod a matching weight if the
	// annotations of the pod change the shares of its containers. Default: true.
	PodSliceWeights bool

	// Node (node) selects the state of this node that the cluster sees.
	Node Node

	// Depletion (depletion) selects the reaction to a depleted shared pool.
	Depletion Depletion

	// AuditInterval (audit.interval) is the interval of scans for tasks on CPUs of another owner,
	// 10s..24h; 0 ("off" in the file) means no scans. Default: 5m.
	AuditInterval time.Duration

	// AuditLive (audit.live) makes the kernel's scheduler count other tasks on exclusive CPUs.
	// Default: false, until the cost of the program is measured on hardware.
	AuditLive bool

	// Interrupts (interrupts) selects the CPUs of interrupts of devices.
	Interrupts Interrupts

	// KernelThreads (kernelThreads) selects the CPUs of kernel threads and unbound
	// workqueues. Default: off.
	KernelThreads KernelThreads

	// Power (power) holds the features that pods may request; "off" in the file means none.
	// Default: none.
	Power []PowerFeature `json:",omitempty"`

	// LogLevel (logLevel) is debug, info, warn or error. Default: info.
	LogLevel slog.Level

	// LogFormat (logFormat) is text or json. Default: text.
	LogFormat LogFormat

	origins origins
}

// JournalFile returns the name of the journal's file.
func (c *Config) JournalFile() string { return filepath.Join(c.StateDir, "journal.json") }

// HasRuntime reports whether the machine has a container runtime.
func (c *Config) HasRuntime() bool { return c.RuntimeEndpoint != NoRuntime }

// Names returns the names of annotations and resources.
func (c *Config) Names() workload.Names {
	return workload.Names{Domain: c.AnnotationDomain, PoolDomain: c.PoolDomain}
}

// Mode selects whether the daemon writes its decisions.
type Mode string

// With ModeEnforce the daemon writes them. With ModeObserve the daemon reports them and writes
// nothing: earlier writes stay.
const (
	ModeEnforce Mode = "enforce"
	ModeObserve Mode = "observe"
)

// Permission selects the permission by which pods of a namespace may request a workload type.
type Permission string

// With PermissionList it is the list of a partition alone. With PermissionAnnotation it is the
// list or the annotation of the namespace. The daemon reads the annotation from the API server,
// for clusters without a webhook.
const (
	PermissionList       Permission = "list"
	PermissionAnnotation Permission = "annotation"
)

// OnRefusal selects the effect of a refusal of exclusive CPUs on the container.
type OnRefusal string

// With RefusalShared the container runs in the shared pool until enough CPUs are free. With
// RefusalFail it does not run: the runtime does not create it if it asks first (NRI);
// otherwise the daemon stops it. RefusalAuto is RefusalFail if the runtime asks first, and
// RefusalShared otherwise.
const (
	RefusalAuto   OnRefusal = "auto"
	RefusalShared OnRefusal = "shared"
	RefusalFail   OnRefusal = "fail"
)

// Isolation is the protection of exclusive CPUs.
type Isolation string

// With IsolationCPUSet the cpusets of all other cgroups are disjoint from exclusive CPUs. With
// IsolationPartition the container's cgroup is a cpuset partition in addition: the kernel excludes
// all other tasks, host processes too. Kernels before 6.11 have no such partitions. On kernels
// before 7.0 another container of the pod can break one. IsolationAuto is IsolationPartition from
// kernel 7.0 on.
const (
	IsolationAuto      Isolation = "auto"
	IsolationPartition Isolation = "partition"
	IsolationCPUSet    Isolation = "cpuset"
)

// WeightFormula is a conversion of CFS shares (2..262144) to cpu.weight
// (1..10000). OCI runtimes changed it in 2025 (opencontainers/cgroups 0.0.5, crun 1.23).
// All containers of a node need the same formula.
type WeightFormula string

// WeightAuto selects the formula of the OCI runtime in use.
const (
	WeightAuto      WeightFormula = "auto"
	WeightLinear    WeightFormula = "linear"
	WeightQuadratic WeightFormula = "quadratic"
)

// LogFormat is the form of the log's lines.
type LogFormat string

// The formats are the two handlers of log/slog.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// nriSocket is the default path of NRI in runtimes.
const nriSocket = "/run/nri/nri.sock"

// Default returns the configuration of an empty file: one shared pool of all CPUs.
func Default() Config {
	const kubelet = "/var/lib/kubelet"
	return Config{
		Mode:                ModeEnforce,
		Pools:               poolspec.Spec{StrictReservation: true},
		StaticPods:          pools.StaticPods{All: true},
		NamespacePermission: PermissionList,
		OnRefusal:           RefusalAuto,
		HostSlices:          HostSlices{Pool: defaultHostPool},
		OtherManagers:       OtherManagers{CRIOWorkloads: StanceRefuse, CRIOHighPerformance: StanceStandDown, NRIPlugins: StanceRefuse},
		SystemPartition:     SystemPartitionAuto,
		Isolation:           IsolationCPUSet,
		AnnotationDomain:    "workload.openshift.io",
		PoolDomain:          "openshift.io",
		KubeletStateDir:     kubelet,
		PodResourcesSocket:  podResources(kubelet),
		NRISocket:           nriSocket,
		StateDir:            "/var/lib/cpupoold",
		RunDir:              "/run/cpupoold",
		ListenAddress:       "127.0.0.1:9466",
		ResyncPeriod:        30 * time.Second,
		WeightFormula:       WeightAuto,
		PodSliceWeights:     true,
		Node:                Node{Enabled: NodeAuto, Resources: true, Condition: true, Events: true, StartupTaint: "cpupoold.io/starting"},
		Depletion:           Depletion{Action: DepletionWarn, Floor: 1, ClearAfter: time.Minute, DryRun: true},
		AuditInterval:       5 * time.Minute,
		Interrupts:          Interrupts{Away: AwayAnnotated},
		KernelThreads:       KernelThreadsOff,
		LogLevel:            slog.LevelInfo,
		LogFormat:           LogText,
	}
}

// Resolve checks the pools against a machine. Its error joins one *Problem for
// each request that the machine cannot fulfil: pools that overlap, CPUs that do not
// exist, an empty pool, an option that needs another machine.
func (c *Config) Resolve(t *topology.Topology) (pools.Pools, error) {
	resolved, err := c.Pools.Resolve(t)
	var problems []error
	for _, e := range Flatten(err) {
		if field, ok := errors.AsType[*poolspec.FieldError](e); ok {
			key := field.Field
			if unit := join(key, field.Value); key == "units" && c.origins.has(unit) {
				key = unit // the name is wrong, and has its own line
			}
			e = c.origins.problem(key, field.Value, field.Reason)
		}
		problems = append(problems, e)
	}
	// The kubelet refuses this, too (ValidateStaticPolicyOptions): NUMA nodes of such a machine
	// span several sockets, so the hint of a node does not select a socket.
	if c.Pools.Guaranteed.Options.AlignBySocket && len(t.Packages) > len(t.Nodes) {
		problems = append(problems, c.origins.problem("guaranteed.options.align-by-socket", "true",
			fmt.Sprintf("the machine has more sockets (%d) than NUMA nodes (%d); write false", len(t.Packages), len(t.Nodes))))
	}
	problems = append(problems, c.checkHostSlices()...)
	if len(problems) > 0 {
		return pools.Pools{}, errors.Join(problems...)
	}
	return resolved, nil
}
