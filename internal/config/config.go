// Package config reads the daemon's one configuration file.
//
// Settings come from three places, later ones win: the defaults (Default), a
// YAML file in the manner of the kubelet's (Load), and flags (Overrides). What
// cannot be honoured is reported all at once, each problem with its file, line,
// key and value, and what to write instead; a configuration with problems is
// never used in part.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// APIVersion and Kind are what a configuration file must say that it is.
const (
	APIVersion = "config.cpupoold.io/v1alpha1"
	Kind       = "CPUPoolConfiguration"
)

// Config is everything that an operator can set. Each field names its key in
// the file.
type Config struct {
	// Mode (mode) says whether what is decided is written. Default: enforce.
	Mode Mode

	// Pools are the keys partitions, shared, guaranteed and units. Resolve holds
	// them against a machine.
	Pools pools.Spec

	// StaticPods (staticPods) says which static pods may ask for the workload type of a
	// partition, whatever namespaces that lists. Default: all of them.
	StaticPods pools.StaticPods
	// NamespacePermission (namespacePermission) says what lets pods ask for the workload
	// type of a partition. Default: list.
	NamespacePermission Permission
	// OnRefusal (guaranteed.onRefusal) says what becomes of a container that is
	// to have CPUs of its own and cannot get them. Default: auto.
	OnRefusal OnRefusal

	// HostSlices (hostSlices) says where services of the host run.
	HostSlices HostSlices

	// OtherManagers (otherManagers) says what is done about other managers of CPUs.
	OtherManagers OtherManagers
	// SystemPartition (systemPartition) selects what the daemon does with pods in the kubelet's
	// system partition. Default: auto.
	SystemPartition SystemPartition

	// Isolation (guaranteed.isolation) says what keeps others off the CPUs of a
	// container that has its own. Default: cpuset.
	Isolation Isolation

	// Park (guaranteed.park) says whether the kernel keeps everybody off the CPUs of
	// the guaranteed pool that nobody has, too. It needs a list in guaranteed.cpus and
	// an Isolation with partitions. Default: false.
	Park bool

	// AnnotationDomain (annotationDomain) is the domain of the annotations that
	// pods and namespaces carry. Default: workload.openshift.io, so that
	// manifests written for OpenShift work unchanged.
	AnnotationDomain string

	// PoolDomain (poolDomain) is the domain of the extended resources by which the
	// scheduler counts the shared and the guaranteed pool. Default: openshift.io.
	PoolDomain string

	// RuntimeEndpoint (containerRuntimeEndpoint) is the CRI socket, a
	// unix:// URL or an absolute path. Default: empty, which means the endpoint
	// of the kubelet, and without a kubelet the runtime that answers in one of the
	// usual places. "none" stands for a machine without a runtime, where
	// only systemd units are placed: see HasRuntime.
	RuntimeEndpoint string

	// KubeletStateDir (kubeletStateDir) is where the kubelet keeps its
	// configuration and its CPU manager's state, which are read to detect a
	// second manager of cpusets. Default: /var/lib/kubelet.
	KubeletStateDir string

	// PodResourcesSocket (podResourcesSocket) is the absolute path of the
	// kubelet's PodResources socket, which tells the NUMA nodes of containers'
	// devices and memory; empty, "none" in the file, asks nobody. Default:
	// pod-resources/kubelet.sock in KubeletStateDir, or empty without a runtime.
	PodResourcesSocket string

	// NRISocket (nriSocket) is the absolute path of the runtime's NRI socket, over
	// which it asks before it creates a container; empty, "none" in the file, is not
	// asked. Default: /run/nri/nri.sock, or empty without a runtime.
	NRISocket string

	// StateDir (stateDir) holds the journal with the originals of what the
	// daemon changed; it must survive a reboot. Default: /var/lib/cpupoold.
	StateDir string

	// RunDir (runDir) holds the lock that keeps a second daemon from writing, the
	// files that tell applications their CPUs, and the control socket; it must not
	// survive a reboot. Default: /run/cpupoold.
	RunDir string

	// ListenAddress (listenAddress) is host:port of /metrics, /healthz and
	// /readyz. They are not authenticated. Default: 127.0.0.1:9466.
	ListenAddress string

	// ResyncPeriod (resyncPeriod) is the longest time between two passes over
	// the node when nothing happens, 1s..1h. It bounds how long a lost event of
	// the runtime goes unnoticed, and that tasks run elsewhere. What else is written to
	// cgroups that are watched is told of at once, and read in turns, each in about eight
	// periods or 4m, whichever is less, but no more often than once a period. Default: 30s.
	ResyncPeriod time.Duration

	// Quiet (quiet) is how long what is not needed to keep exclusive CPUs exclusive may
	// wait while somebody has some, 1s..24h; 0 lets nothing wait. Default: 0.
	Quiet time.Duration

	// WeightFormula (weightFormula) converts CFS shares to cpu.weight for
	// containers. Default: auto.
	WeightFormula WeightFormula

	// PodSliceWeights (podSliceWeights) says whether slices of pods whose
	// annotations change their containers' shares get a weight to match.
	// Default: true.
	PodSliceWeights bool

	// Node (node) says what the cluster sees of this node.
	Node Node

	// Depletion (depletion) says what becomes of a node whose shared pool is depleted.
	Depletion Depletion

	// AuditInterval (audit.interval) is how often the daemon looks who is on CPUs of
	// somebody else, 10s..24h; 0, "off" in the file, never. Default: 5m.
	AuditInterval time.Duration

	// Interrupts (interrupts) says where interrupts of devices go.
	Interrupts Interrupts

	// KernelThreads (kernelThreads) says where threads and unbound work of the kernel
	// run. Default: off.
	KernelThreads KernelThreads

	// Power (power) are the features that pods may ask for; "off" in the file for none.
	// Default: none.
	Power []PowerFeature `json:",omitempty"`

	// LogLevel (logLevel) is debug, info, warn or error. Default: info.
	LogLevel slog.Level

	// LogFormat (logFormat) is text or json. Default: text.
	LogFormat LogFormat

	origins origins
}

// HasRuntime says whether there is a container runtime to ask.
func (c *Config) HasRuntime() bool { return c.RuntimeEndpoint != NoRuntime }

// Names are the names of annotations and resources.
func (c *Config) Names() workload.Names {
	return workload.Names{Domain: c.AnnotationDomain, PoolDomain: c.PoolDomain}
}

// Mode is what the daemon does with what it has decided.
type Mode string

// With ModeEnforce it writes it. With ModeObserve it reports and writes nothing: what
// was written before stays as it is.
const (
	ModeEnforce Mode = "enforce"
	ModeObserve Mode = "observe"
)

// Permission is what lets the pods of a namespace ask for a workload type.
type Permission string

// With PermissionList it is the list of a partition alone. With PermissionAnnotation a
// namespace's own annotation does, too, as the API server tells it: where there is no
// webhook.
const (
	PermissionList       Permission = "list"
	PermissionAnnotation Permission = "annotation"
)

// OnRefusal is what becomes of a container that is refused CPUs of its own.
type OnRefusal string

// With RefusalShared it runs in the shared pool until there are enough. With
// RefusalFail it is not to run: it is not created where the runtime asks first (NRI),
// else stopped. RefusalAuto is RefusalFail where the runtime asks first, and else
// RefusalShared.
const (
	RefusalAuto   OnRefusal = "auto"
	RefusalShared OnRefusal = "shared"
	RefusalFail   OnRefusal = "fail"
)

// Isolation is what keeps others off CPUs that a container has for itself.
type Isolation string

// With IsolationCPUSet the sets of all others are kept disjoint from them. With
// IsolationPartition the container's cgroup is a partition, besides: the kernel keeps
// everybody off, host processes too. Kernels before 6.11 have no such partitions, and
// before 7.0 another container of the pod can break one. IsolationAuto is
// IsolationPartition from kernel 7.0 on.
const (
	IsolationAuto      Isolation = "auto"
	IsolationPartition Isolation = "partition"
	IsolationCPUSet    Isolation = "cpuset"
)

// WeightFormula is a conversion of CFS shares (2..262144) to cpu.weight
// (1..10000). OCI runtimes changed it in 2025 (opencontainers/cgroups 0.0.5,
// crun 1.23), and a node's containers must all be weighed alike.
type WeightFormula string

// WeightAuto takes the formula of the OCI runtime in use.
const (
	WeightAuto      WeightFormula = "auto"
	WeightLinear    WeightFormula = "linear"
	WeightQuadratic WeightFormula = "quadratic"
)

// LogFormat is the form of the log's lines.
type LogFormat string

// The formats are those of log/slog's two handlers.
const (
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// nriSocket is where runtimes serve NRI unless they are told otherwise.
const nriSocket = "/run/nri/nri.sock"

// Default is the configuration of an empty file: one shared pool of all CPUs.
func Default() Config {
	const kubelet = "/var/lib/kubelet"
	return Config{
		Mode:                ModeEnforce,
		Pools:               pools.Spec{StrictReservation: true},
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

// Resolve holds the pools against a machine. Its error joins one *Problem for
// each thing that the machine cannot give: pools that overlap, CPUs that do not
// exist, a pool that is empty, an option that it is not made for.
func (c *Config) Resolve(t *topology.Topology) (pools.Pools, error) {
	resolved, err := c.Pools.Resolve(t)
	var problems []error
	for _, e := range Flatten(err) {
		if field, ok := errors.AsType[*pools.FieldError](e); ok {
			key := field.Field
			if unit := join(key, field.Value); key == "units" && c.origins.has(unit) {
				key = unit // the name is wrong, and has a line of its own
			}
			e = c.origins.problem(key, field.Value, field.Reason)
		}
		problems = append(problems, e)
	}
	// As the kubelet does (ValidateStaticPolicyOptions): such a machine has nodes
	// of several sockets, and the hint of a node is none of a socket.
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
