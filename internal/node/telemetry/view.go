// Package telemetry shows what the daemon does: /metrics, /healthz and /readyz
// on one address.
//
// It keeps no count of its own of what the daemon does: everything comes from
// the View that the daemon publishes after each pass, and from the kernel at the
// time of the scrape. The metrics are a table (see specs), from which
// docs/metrics.md is made.
package telemetry

import (
	"time"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// View is the daemon's state after a pass. It is not changed once published.
type View struct {
	Pools      []Pool
	Containers []Container
	// Problems counts the inputs that could not be honoured, by reason code.
	Problems map[string]int
	// Passes and Writes count since the daemon's start.
	Passes map[Result]uint64
	Writes map[Write]uint64
	// WriteErrors counts the writes that failed, by error.
	WriteErrors map[WriteError]uint64
	// Faulty counts the cgroups that are not as planned and that nothing under way mends.
	Faulty int
	// Ready says that the first pass is over: everything that could be placed has
	// been placed and recorded.
	Ready bool
	// LastSuccess is the end of the last pass after which every cgroup was
	// verified to be as planned; zero before the first one.
	LastSuccess time.Time
	// Sources tells how each source of events fares.
	Sources map[Source]SourceState
	// ConfigStale says that the configuration file has problems, so that an
	// older one is in force.
	ConfigStale bool
	// Adapted are the differences between the configuration and what of it is in
	// force, because it does not fit this machine; one sentence each.
	Adapted []string
	// Offline are the CPUs that pools would have if they were online.
	Offline cpuset.Set
	// Refusals are the containers and units that should have CPUs of their own and
	// have none, and the latest of those that are over; the oldest first.
	Refusals []Refusal
	// Drifts counts foreign writes since the daemon's start, Repairs how long it took
	// to repair those that the kernel told of.
	// Repaired counts those of Drifts that were repaired; the others' cgroups had gone.
	// Open is the number of those that were found and are in neither yet.
	Drifts, Repaired map[Drift]uint64
	Repairs          Histogram
	Open             int
	// Gathered counts threads that were found outside the CPUs of their cgroup and
	// brought back, since the daemon's start. Stuck is the number of those that the
	// kernel does not let go back, as of when their cgroup was last read.
	Gathered uint64
	Stuck    int
	// Placements are the first placements of containers that were made since the
	// daemon's start, by the way that led to them.
	Placements map[Way]Placements
	// HostUnits are the units of host services, if they are to be confined.
	HostUnits []HostUnit
	// Partitions counts the partitions that there are or should be: root and isolated
	// are in force, underway, waits and refused are not.
	Partitions map[string]int
	// PartitionChanges counts the changes of partitions since the daemon's start.
	PartitionChanges uint64
	// Leaked are CPUs that the kernel has lost: online, and in no cgroup.
	Leaked cpuset.Set
	// Mixed counts the containers that run on shared CPUs beside their own.
	Mixed int
	// Parked are the CPUs that nobody owns and that the kernel keeps everybody off.
	Parked cpuset.Set
	// Room is what a new owner can have; nil before the first plan.
	Room *Room
	// Observed counts the writes that are not made because the daemon only observes, by
	// way; nil where it makes them.
	Observed map[string]int
	// Quiet counts what waits while somebody has CPUs of its own: cpus that stay out of
	// the shared pool or are not parked, and weights.
	Quiet map[string]int
	// Refused counts refusals since the daemon's start, by code.
	Refused map[string]uint64
	// Audit is who was found on CPUs of somebody else; nil where nobody looks.
	Audit *Audit
	// Settings are those of the host outside of cgroups; nil where they are left alone.
	Settings *HostSettings
	// Node is what the cluster is shown of the node; nil where it is shown nothing.
	Node *NodeView
}

// NodeView is what the cluster is shown of the node.
type NodeView struct {
	Resources []NodeResource
	// Pressure says that the shared pool counts as depleted.
	Pressure bool
	// Patches and Events count requests since the daemon's start.
	Patches, Events map[Result]uint64
}

// NodeResource is an extended resource, in thousandths of a CPU: what is advertised, and
// what pods use that do not ask for it.
type NodeResource struct {
	Name               string
	Milli, Unaccounted int64
}

// Refusal is a container, or a unit, that was to have CPUs of its own and got none.
type Refusal struct {
	// Pod is namespace/name, empty for a unit; Container is the container's or the
	// unit's name.
	Pod, Container string
	// PodUID and ID are the pod's UID and the container's CRI id; empty for a unit.
	PodUID, ID string
	// Asked and Free are numbers of CPUs; Free those that could be chosen from.
	Asked, Free int
	// Code is the stable name of the reason, Why the sentence.
	Code, Why string
	// Since is when it was refused first, Until when that was over: it has CPUs now,
	// or is gone. Zero while it lasts.
	Since, Until time.Time
	// Stopped says that the container was stopped for it (onRefusal: fail).
	Stopped bool
}

// HostUnit is a unit of host services: init.scope, a slice or a service.
type HostUnit struct {
	// Name is what the configuration calls it; State one of package host's.
	Name, State string
}

// Pool is a pool with its CPUs that are online.
type Pool struct {
	PoolName
	CPUs cpuset.Set
	// Free are the CPUs that no container holds; of use in the guaranteed pool.
	Free cpuset.Set
	// Allocated is how much of it is spoken for, in thousandths of a CPU.
	Allocated int64
}

// Room is the number of CPUs of the largest new owner that fits into the guaranteed
// pool, a NUMA node of it, an L3 cache, or whole cores of a NUMA node.
type Room struct {
	Pool, Node, L3, WholeCores int
}

// PoolName names a pool: management, shared or guaranteed, and for management
// pools the workload type.
type PoolName struct {
	Pool, Type string
}

// Container is a container, or a systemd unit of the configuration, that the
// daemon knows.
type Container struct {
	PoolName
	ID, Namespace, Pod, Name string
	// Reason is the code of the reason why it is in its pool.
	Reason string
	// Unit says that this is a systemd unit: Name is its name, and there is no ID
	// and no pod.
	Unit bool
	// Isolation says what keeps others off the CPUs of a container that has its own:
	// partition-root, partition-isolated or cpuset; empty for all that have not.
	Isolation string
	// Noise is, for such a container, on how many of its CPUs the kernel does work of its
	// own, by source: balancing, tick, rcu and managed_irq.
	Noise map[string]int
	// Cgroup is the path below the cgroup root, without a leading slash; empty
	// when the container does not run.
	Cgroup string
}

// Result is how a pass or a write ended.
type Result string

// A pass is OK when everything is as planned afterwards.
const (
	OK     Result = "ok"
	Failed Result = "failed"
	// Conflict: the Node had changed, and the patch was made again.
	Conflict Result = "conflict"
)

// Write is a kind of write, by the way it took: file, cri or dbus.
type Write struct {
	Via    string
	Result Result
}

// WriteError is a kind of write that failed, by its way, and why: the kernel's name of
// the error, ErrnoTimeout or ErrnoOther.
type WriteError struct {
	Via, Errno string
}

// ErrnoTimeout and ErrnoOther stand for errors that are not the kernel's: runtime or
// systemd have not answered in time, or have refused.
const (
	ErrnoTimeout = "timeout"
	ErrnoOther   = "other"
)

// Source is something that wakes the daemon.
type Source string

// CRIEvents is the runtime's event stream, PodResources the kubelet's word on
// devices and memory, Units systemd's signals about units and its reloads, NRI what the
// runtime asks before it creates a container, Inotify the kernel's word on writes of
// others to cgroups, CPUs that on CPUs that go offline and come online, APIServer what
// the cluster tells of its Node, Namespaces what it tells of their annotations.
const (
	CRIEvents    Source = "cri_events"
	PodResources Source = "pod_resources"
	Units        Source = "systemd_units"
	NRI          Source = "nri"
	Inotify      Source = "inotify"
	CPUs         Source = "cpu_hotplug"
	APIServer    Source = "api_server"
	Namespaces   Source = "namespaces"
)

// SourceState is how a source fares. Only OK is quick; none is needed for
// correctness.
type SourceState string

// Polling: the source does not exist here and its place is taken by polling.
// Absent: it does not exist here, and slower ones lead to the same.
// Lost: it broke and is being reestablished.
const (
	SourceOK      SourceState = "ok"
	SourcePolling SourceState = "polling"
	SourceAbsent  SourceState = "absent"
	SourceLost    SourceState = "lost"
)
