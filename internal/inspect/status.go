// Package inspect holds the JSON documents of the daemon's state, for `cpupoold status`,
// for pictures and for reports. docs/reference/json.md lists the fields.
//
// New fields do not change Version. Existing fields keep their meaning within a Version.
package inspect

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Version is the version of all documents of this package.
const Version = 1

// Status is the state of a node after the daemon's last pass.
type Status struct {
	Version int `json:"version"`
	// Sequence is the Seq of the last event that the state includes. It rises whenever
	// anything happens.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"` // time of the request
	Daemon   Daemon    `json:"daemon"`
	// Node is the node's name in its cluster. It is empty without a cluster.
	Node   string `json:"node,omitempty"`
	Config Config `json:"config"`
	Passes Passes `json:"passes"`
	// Pools are sorted: management by type, shared, guaranteed, claims.
	Pools []Pool `json:"pools"`
	// Devices are the devices of which ResourceClaims get CPUs, by NUMA node. Claims are the
	// ResourceClaims that have CPUs or should have them, by UID.
	Devices []ClaimDevice `json:"devices,omitempty"`
	Claims  []Claim       `json:"claims,omitempty"`
	// Room is the free capacity of the guaranteed pool. It is absent without such a pool, and
	// before the first plan.
	Room *Room `json:"room,omitempty"`
	// Placements are the first placements of containers since the daemon's start, by way.
	Placements []Placement `json:"placements,omitempty"`
	// Containers are the containers that have not exited, and the systemd units of the
	// configuration.
	Containers []Container `json:"containers"`
	// System is absent without a system partition of the kubelet.
	System *SystemPartition `json:"systemPartition,omitempty"`
	// Auxiliary are the cgroups in the slices of pods that belong to no container.
	Auxiliary []Auxiliary `json:"auxiliary,omitempty"`
	// Audit describes the audits. It is absent before the first plan.
	Audit *Audit `json:"audit,omitempty"`
	// Sources are sorted by name.
	Sources  []Source  `json:"sources"`
	Problems []Problem `json:"problems"`
	// Faults are cgroups that differ from the desired state. Waits are the deferred writes.
	Faults []Fault `json:"faults,omitempty"`
	Waits  []Wait  `json:"waits,omitempty"`
	// Writes count since the daemon's start; LastWrites are the latest, the last one
	// at the end.
	Writes     []Writes        `json:"writes"`
	LastWrites []history.Event `json:"lastWrites"`
	// CPUs are the present CPUs, also while they are offline.
	CPUs []CPU `json:"cpus"`
	// Topology is the output of `cpupoold topology -o json`.
	Topology *topology.Topology `json:"topology,omitempty"`
}

// Daemon is the program that answers.
type Daemon struct {
	BuildVersion string    `json:"buildVersion"`
	Commit       string    `json:"commit"`
	Go           string    `json:"go"`
	Started      time.Time `json:"started"`
	// Mode is enforce or observe. With observe the daemon makes no writes, and Owed counts
	// the writes that enforce would make.
	Mode string `json:"mode"`
	Owed int    `json:"owed,omitempty"`
	// Ready is true after each container that can be placed has been placed once.
	Ready bool `json:"ready"`
}

// Config is the configuration in force.
type Config struct {
	// File is empty without a configuration file.
	File string `json:"file,omitempty"`
	// Error is the reason if the present content of the file is not in force.
	Error string `json:"error,omitempty"`
	// Adapted names the parts that this machine cannot provide, one sentence each.
	Adapted []string `json:"adapted,omitempty"`
	// Settings are the main keys.
	Settings []Setting `json:"settings"`
	// Offline are configured CPUs that are offline.
	Offline cpuset.Set `json:"offline"`
}

// Setting is a key of the configuration file with the value in force.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Passes counts the daemon's reconciliations of the node.
type Passes struct {
	OK     uint64 `json:"ok"`
	Failed uint64 `json:"failed"`
	// Unavailable counts the passes that failed only because the container runtime or systemd
	// did not answer. Failed does not contain them.
	Unavailable uint64 `json:"unavailable"`
	// Last is the start of the last pass. LastSuccess is the end of the last pass that reached the
	// desired state. Both are absent before the first.
	Last        time.Time `json:"last,omitzero"`
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
}

// SystemPartition is the kubelet's system partition (KEP-5894): a cgroup with the pods of the
// namespaces in the kubelet's configuration.
type SystemPartition struct {
	// Cgroup is its root.
	Cgroup string `json:"cgroup"`
	// CPUs is the cpuset from the kubelet's configuration, empty without one. Effective holds
	// the CPUs on which the pods in it can run.
	CPUs      cpuset.Set `json:"cpus,omitzero"`
	Effective cpuset.Set `json:"effective"`
	// StandsDown is true if the daemon does not place the pods in it.
	StandsDown bool `json:"standsDown,omitempty"`
}

// Names of pools. Other stands for containers that another manager of CPUs places.
const (
	Management = "management"
	Shared     = "shared"
	Guaranteed = "guaranteed"
	Other      = "other"
)

// Pool is a pool of CPUs.
type Pool struct {
	// Name is management, shared, guaranteed or claims. Type is the workload type of a management
	// pool.
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	// CPUs are the online CPUs. For the shared pool they are the CPUs that it has now.
	CPUs cpuset.Set `json:"cpus"`
	// Owned, Free, Idle, Resting and Parked divide the guaranteed pool, and Owned and Free the pool
	// claims. Owned CPUs have an owner or
	// are reserved for a pod. Free CPUs have no owner. Idle CPUs are unused threads of an owner's
	// core. Resting CPUs stay out of the shared pool in a quiet period. The kernel excludes all
	// tasks from Parked CPUs.
	Owned   cpuset.Set `json:"owned,omitzero"`
	Free    cpuset.Set `json:"free,omitzero"`
	Idle    cpuset.Set `json:"idle,omitzero"`
	Resting cpuset.Set `json:"resting,omitzero"`
	Parked  cpuset.Set `json:"parked,omitzero"`
	// FromShared is true if the guaranteed pool is a part of the shared pool.
	FromShared bool `json:"fromShared,omitempty"`
	// Lent are free CPUs of claims that the shared pool uses.
	Lent cpuset.Set `json:"lent,omitzero"`
	// Containers counts the containers and units in the pool. Containers that use ResourceClaims
	// count for the pool claims.
	Containers int `json:"containers"`
}

// Room holds the largest numbers of exclusive CPUs that one new owner can get. Pool counts any
// CPUs, NUMANode CPUs of one node, L3 CPUs of one cache, and WholeCores the CPUs of whole cores
// of one node. The CPUs that the shared pool keeps (guaranteed.floor) do not count.
type Room struct {
	Pool       int `json:"pool"`
	NUMANode   int `json:"numaNode"`
	L3         int `json:"l3"`
	WholeCores int `json:"wholeCores"`
}

// Placement counts the containers that one kind of event led to their first placement. Until
// then they can run on CPUs of other pools.
type Placement struct {
	// Way is nri, spec, inotify, event or resync, as in the metrics.
	Way        string `json:"way"`
	Containers uint64 `json:"containers"`
	// Seconds is the sum of the times from the creation of a cgroup until the placement.
	// CPUSeconds is the CPU time of the containers by then, in seconds.
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Container is a container, or a systemd unit.
type Container struct {
	// Unit is true for a systemd unit. Then Name is its name, and Pod and ID are empty.
	Unit      bool   `json:"unit,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Name      string `json:"name"`
	ID        string `json:"id,omitempty"`
	// State is created, running or exited. Exited containers are listed while CPUs are reserved for
	// them.
	State string `json:"state,omitempty"`
	Pool  string `json:"pool"`
	Type  string `json:"type,omitempty"`
	// CPUs are the desired CPUs. With Exclusive no other container may run on them. Mixed are
	// additional shared CPUs.
	CPUs      cpuset.Set `json:"cpus"`
	Exclusive bool       `json:"exclusive,omitempty"`
	Mixed     cpuset.Set `json:"mixed,omitzero"`
	// Claims are the names of the ResourceClaims of which the container has its CPUs
	// (namespace/name). Containers with a claim in common share its CPUs.
	Claims []string `json:"claims,omitempty"`
	// Mode is the protection of exclusive CPUs: cpuset, partition-root or partition-isolated.
	Mode string `json:"mode,omitempty"`
	// Code is the stable name of the reason. Reason is the sentence.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Refused is true if the container requests exclusive CPUs and gets none.
	Refused bool `json:"refused,omitempty"`
	// Cgroup is a path below the cgroup root. It is empty while the container does not run.
	Cgroup string `json:"cgroup,omitempty"`
}

// Auxiliary is a cgroup in the slice of a pod that belongs to no container.
type Auxiliary struct {
	Cgroup string `json:"cgroup"`
	// Kind is monitor (conmon of CRI-O), sandbox (the pod's containers run in it: a virtual
	// machine, or gVisor) or other.
	Kind string `json:"kind"`
	// Pod is namespace/name. It is empty if the runtime does not report the pod.
	Pod    string     `json:"pod,omitempty"`
	PodUID string     `json:"podUID,omitempty"`
	Pool   pools.Pool `json:"pool"`
	Type   string     `json:"type,omitempty"` // of a management pool
	// CPUs are the desired CPUs. With Exclusive they are exclusive CPUs of the pod's
	// containers, but for the shared CPUs in Mixed.
	CPUs      cpuset.Set `json:"cpus"`
	Exclusive bool       `json:"exclusive,omitempty"`
	Mixed     cpuset.Set `json:"mixed,omitzero"`
	Reason    string     `json:"reason"`
}

// FullPool returns the name of a pool, with the type of a management pool.
func FullPool[P ~string](pool P, typ string) string {
	if typ == "" || typ == string(pool) {
		return string(pool)
	}
	return string(pool) + "/" + typ
}

// Full returns namespace/pod/name, or the name of the unit.
func (c *Container) Full() string {
	if c.Unit {
		return c.Name
	}
	return c.Namespace + "/" + c.Pod + "/" + c.Name
}

// CPUText returns the CPUs of the container, and behind a plus the CPUs in Mixed.
func (c *Container) CPUText() string {
	if c.Mixed.IsEmpty() {
		return c.CPUs.String()
	}
	return c.CPUs.String() + " + " + c.Mixed.String()
}

// ByPool returns the containers in the order of tables: guaranteed, management by type, shared.
func ByPool(all []Container) []Container {
	order := []string{Guaranteed, Management, Shared, Other}
	return slices.SortedStableFunc(slices.Values(all), func(a, b Container) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Pool), slices.Index(order, b.Pool)), cmp.Compare(a.Type, b.Type))
	})
}

// Source is a source of events. Its state is ok, polling (the node lacks the source, and the
// daemon polls), absent or lost.
type Source struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Problem is rejected input or a fault. Without pod, unit and claim it belongs to the node.
type Problem struct {
	Pod       string `json:"pod,omitempty"` // namespace/name
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Claim     string `json:"claim,omitempty"` // namespace/name of a ResourceClaim; Pod is empty then
	Code      string `json:"code"`
	Text      string `json:"text"`
}

// Name returns the object of the problem.
func (p Problem) Name() string {
	if p.Claim != "" {
		return claimOwner + p.Claim
	}
	name := cmp.Or(p.Pod, p.PodUID, p.Unit, "node")
	if p.Container != "" {
		name += "/" + p.Container
	}
	return name
}

// String returns one line with the code.
func (p Problem) String() string { return p.Name() + ": " + p.Text + " (" + p.Code + ")" }

// Fault is a cgroup that differs from the desired state.
type Fault struct {
	Cgroup string `json:"cgroup"`
	Error  string `json:"error"`
}

// Wait is a property that is not written yet.
type Wait struct {
	Cgroup   string `json:"cgroup"`
	Property string `json:"property"`
	Reason   string `json:"reason"`
}

// Writes counts the writes that were made by file, cri, dbus or nri.
type Writes struct {
	Via    string `json:"via"`
	OK     uint64 `json:"ok"`
	Failed uint64 `json:"failed"`
}

// CPU is a logical CPU with its owner. The numbers are the kernel's, as in the lists of
// the topology. Core and L3 are the lowest CPU of the core and of the cache. Die is unique in its
// package only. They are -1 while the CPU is offline, because the kernel does not report them.
type CPU struct {
	ID      int  `json:"id"`
	Online  bool `json:"online"`
	Core    int  `json:"core"`
	L3      int  `json:"l3"`
	Die     int  `json:"die"`
	Package int  `json:"package"`
	Node    int  `json:"node"`
	// Pool is empty for CPUs of no pool. Type is the workload type of a management pool.
	Pool string `json:"pool,omitempty"`
	Type string `json:"type,omitempty"`
	// Owner is the full name of the container or unit that owns the CPU exclusively. It is
	// namespace/pod for a CPU that is reserved for a pod, and "claim namespace/name" for a CPU of a
	// ResourceClaim.
	Owner string `json:"owner,omitempty"`
	// Use is pool (all containers of the pool run on the CPU), owned, reserved or free. Other unused
	// CPUs are idle, resting, parked, offline, or none (in no pool). A CPU of the pool claims without a
	// claim is unused, or lent if the shared pool uses it.
	Use string `json:"use"`
	// Busy is the time since the boot in which the CPU was not idle, in seconds (/proc/stat,
	// proc_stat(5)). The difference between two states is the busy time between them. It is absent
	// if the kernel does not report it.
	Busy float64 `json:"busy,omitempty"`
}

// Sizes returns the owned and the free CPUs of the guaranteed pool and of the pool claims for a table,
// and empty texts for other pools.
func (p *Pool) Sizes() (owned, free string) {
	if p.Name != Guaranteed && p.Name != ClaimedPool {
		return "", ""
	}
	return Sized(p.Owned), Sized(p.Free)
}

// Sized returns the number of CPUs, and their list.
func Sized(cpus cpuset.Set) string {
	if cpus.IsEmpty() {
		return "0"
	}
	return strconv.Itoa(cpus.Len()) + ": " + cpus.String()
}
