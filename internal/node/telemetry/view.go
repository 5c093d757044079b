// Package telemetry serves /metrics, /healthz and /readyz on one address.
//
// The values come from the View that the daemon publishes after each pass, and from the
// kernel at the time of the scrape. The table in specs describes the metrics; docs/reference/metrics.md
// is generated from it.
package telemetry

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// View is the daemon's state after a pass. It is immutable once published.
type View struct {
	Pools      []Pool
	Containers []Container
	// Problems counts the problems, by code.
	Problems map[string]int
	// Passes and Writes count since the daemon's start.
	Passes map[Result]uint64
	Writes map[Write]uint64
	// WriteErrors counts the failed writes since the daemon's start, by error.
	WriteErrors map[WriteError]uint64
	// Faulty counts the cgroups that are not in the desired state, without a repair in progress.
	Faulty int
	// Ready reports whether the placements of the first pass are written and recorded.
	Ready bool
	// LastSuccess is the end of the last pass that left all cgroups desired; zero before.
	LastSuccess time.Time
	Sources     map[Source]SourceState
	// ConfigStale reports whether the file has problems, so that an older configuration is in use.
	ConfigStale bool
	// Adapted describes the differences between the configuration file and the configuration
	// in use, one sentence each. They exist if the file does not fit this machine.
	Adapted []string
	// Offline holds the offline CPUs of pools.
	Offline cpuset.Set
	Drifted
	// Open is the number of external writes that are not repaired yet.
	Open int
	// Gathered counts the threads that the daemon moved back to the CPUs of their cgroup,
	// since its start. Stuck is the number of threads that the kernel did not let it move, by
	// the last reading of their cgroups.
	Gathered uint64
	Stuck    int
	// Placements holds the first placements of containers since the daemon's start.
	Placements map[Way]Placements
	// HostUnits holds the units of host services; it is empty without hostSlices.
	HostUnits []HostUnit
	// Partitions counts the owners with a cpuset partition that exists or is desired, by
	// state. It is in force in the states root and isolated, and not in underway, waits and
	// refused.
	Partitions map[string]int
	// PartitionChanges counts the changes of cpuset partitions since the daemon's start.
	PartitionChanges uint64
	// Leaked holds the online CPUs that are in no cgroup.
	Leaked cpuset.Set
	// Mixed counts containers that run on shared CPUs in addition to exclusive ones.
	Mixed int
	// Parked holds the free guaranteed CPUs that parking holds.
	Parked cpuset.Set
	// Room is the free capacity; nil before the first plan.
	Room *Room
	// Claims describes ResourceClaims; nil without CPUs for claims and without claims.
	Claims *Claims
	// Observed counts the writes that mode: observe omits, by way; nil in mode: enforce.
	Observed map[string]int
	// Quiet counts the changes that the quiet period defers. The keys are cpus, for CPUs that
	// stay outside the shared pool or are not parked, and weights.
	Quiet map[string]int
	// Refused counts refusals since the daemon's start, by code. RefusedNow counts the containers
	// and units that are refused now.
	Refused    map[string]uint64
	RefusedNow int
	// Shortened counts the requests of the runtime that were decided after a wait of less than
	// one second, because the daemon had no more time for waiting.
	Shortened uint64
	// Replies holds the times from requests of the runtime to the replies since the daemon's start, by
	// kind: create and start.
	Replies map[string]Histogram
	// Audit holds the results of the audit; nil if it is off.
	Audit *Audit
	// LiveAudit holds the results of the audit by the scheduler; nil if it is off.
	LiveAudit *LiveAudit
	// Settings holds the state of host settings outside of cgroups; nil without changes.
	Settings *HostSettings
	// Node holds the daemon's updates of the Node; nil if it makes none.
	Node *NodeView
}

// NodeView describes the daemon's updates of the Node object.
type NodeView struct {
	// Resources holds the resources of the last or the next patch.
	Resources []NodeResource
	// Pressure reports whether the shared pool counts as depleted.
	Pressure bool
	// Patches and Events count requests since the daemon's start.
	Patches, Events map[Result]uint64
}

// NodeResource is an extended resource. Milli is the advertised amount in thousandths of a
// CPU. Unaccounted is the amount that pods use without requesting the resource.
type NodeResource struct {
	Name               string
	Milli, Unaccounted int64
}

// HostUnit is a unit of host services: init.scope, a slice or a service.
type HostUnit struct {
	// Name is the name in the configuration. State is a State of package hostslices.
	Name, State string
}

// Pool is a pool with its online CPUs.
type Pool struct {
	PoolName
	CPUs cpuset.Set
	// Free holds the CPUs without an owner. It matters for the guaranteed pool only.
	Free cpuset.Set
	// Allocated is the amount of allocated CPUs, in thousandths of a CPU.
	Allocated int64
}

// Room is the free capacity of the guaranteed pool, in CPUs. Pool counts any CPUs of it, Node
// the CPUs of one NUMA node, L3 the CPUs of one L3 cache, and WholeCores whole cores of one
// NUMA node.
type Room struct {
	Pool, Node, L3, WholeCores int
}

// Claims counts ResourceClaims and their CPUs.
type Claims struct {
	// Used, Prepared and Refused count claims: a container uses it, none does yet, or it has no CPUs.
	Used, Prepared, Refused int
	// Devices holds the CPUs by the name of the device. The name is empty for offline CPUs of no claim.
	Devices map[string]DeviceCPUs
}

// DeviceCPUs are numbers of CPUs of a device. Offline CPUs belong to claims.
type DeviceCPUs struct {
	Allocated, Free, Offline int
}

// PoolName names a pool: management, shared, guaranteed or claims. Type belongs to a management pool.
type PoolName struct {
	Pool, Type string
}

// Container is a container, or a unit of the configuration.
type Container struct {
	PoolName
	ID, Namespace, Pod, Name string
	// Reason is the code of the reason for its pool.
	Reason string
	// Unit reports whether this is a systemd unit. A unit has a Name, and neither ID nor pod.
	Unit bool
	// Requested is the CPU request of its cpushares, in a management pool; 0 without a request.
	Requested float64
	// Isolation is how other tasks are excluded from exclusive CPUs: partition-root,
	// partition-isolated or cpuset. It is empty for containers without exclusive CPUs.
	Isolation string
	// Noise holds, for an exclusive container, the number of its CPUs with kernel work, by
	// source: balancing, tick, rcu and managed_irq.
	Noise map[string]int
	// Cgroup is the path below the cgroup root; empty while the container does not run.
	Cgroup string
}

// Result is the result of a pass, a write or a request.
type Result string

// Results. A pass is OK if all cgroups are in the desired state after it.
const (
	OK     Result = "ok"
	Failed Result = "failed"
	// Unavailable is a pass that failed only because the runtime or systemd did not answer.
	Unavailable Result = "unavailable"
	// Conflict means that the Node had changed, so that the patch was repeated.
	Conflict Result = "conflict"
)

// Write is a kind of write, by its way: file, cri, dbus or nri.
type Write struct {
	Via    string
	Result Result
}

// WriteError is a kind of failed write. Errno is the kernel's name, ErrnoTimeout or ErrnoOther.
type WriteError struct {
	Via, Errno string
}

// ErrnoTimeout and ErrnoOther replace errors without a number of the kernel. With
// ErrnoTimeout, the runtime or systemd did not answer in time.
const (
	ErrnoTimeout = "timeout"
	ErrnoOther   = "other"
)

// Source is a source of events or hints.
type Source string

// The sources.
const (
	// CRIEvents: the event stream of the runtime.
	CRIEvents Source = "cri_events"
	// PodResources: devices and memory, from the kubelet.
	PodResources Source = "pod_resources"
	// Units: signals of systemd about units and reloads.
	Units Source = "systemd_units"
	// NRI: requests of the runtime before it creates a container.
	NRI Source = "nri"
	// Inotify: external writes to cgroups.
	Inotify Source = "inotify"
	// CPUs: CPUs that go offline or online.
	CPUs Source = "cpu_hotplug"
	// APIServer: the Node of this machine.
	APIServer Source = "api_server"
	// Namespaces: annotations of namespaces.
	Namespaces Source = "namespaces"
	// ApplicationFiles: the files below runDir from which applications read their CPUs.
	ApplicationFiles Source = "application_files"
)

// SourceState is the state of a source. The daemon is correct without any source; in other
// states than SourceOK, it reacts later.
type SourceState string

// The states of sources.
const (
	SourceOK SourceState = "ok"
	// SourcePolling: it does not exist here; the daemon polls instead.
	SourcePolling SourceState = "polling"
	// SourceAbsent: it does not exist here; slower sources replace it.
	SourceAbsent SourceState = "absent"
	// SourceLost: it failed; the daemon reconnects.
	SourceLost SourceState = "lost"
)

// LostIf returns SourceLost or SourceOK.
func LostIf(lost bool) SourceState {
	if lost {
		return SourceLost
	}
	return SourceOK
}
