// Package inspect is the form in which a daemon's state leaves it: documents, as JSON,
// for `cpupoold status`, for pictures and for reports. docs/reference/json.md lists the fields.
//
// Fields may be added; what is there keeps its meaning under a Version.
package inspect

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Version is that of all documents of this package.
const Version = 1

// Status is the state of a node after the daemon's last pass.
type Status struct {
	Version int `json:"version"`
	// Sequence is the Seq of the last event that the state includes. It rises whenever
	// anything happens.
	Sequence uint64    `json:"sequence"`
	Time     time.Time `json:"time"` // when it was asked for
	Daemon   Daemon    `json:"daemon"`
	// Node is the node's name in its cluster; empty where there is none.
	Node   string `json:"node,omitempty"`
	Config Config `json:"config"`
	Passes Passes `json:"passes"`
	// Pools are sorted: management by type, shared, guaranteed.
	Pools []Pool `json:"pools"`
	// Room is the free capacity of the guaranteed pool. It is absent without such a pool, and
	// before the first plan.
	Room *Room `json:"room,omitempty"`
	// Placements are the first placements of containers since the daemon's start, by way.
	Placements []Placement `json:"placements,omitempty"`
	// Containers are those that have not exited, and the systemd units of the
	// configuration.
	Containers []Container `json:"containers"`
	// System is absent without a system partition of the kubelet.
	System *SystemPartition `json:"systemPartition,omitempty"`
	// Auxiliary are the cgroups in the slices of pods that belong to no container.
	Auxiliary []Auxiliary `json:"auxiliary,omitempty"`
	// Sources are sorted by name.
	Sources  []Source  `json:"sources"`
	Problems []Problem `json:"problems"`
	// Faults are cgroups that are not as planned, Waits what is written later.
	Faults []Fault `json:"faults,omitempty"`
	Waits  []Wait  `json:"waits,omitempty"`
	// Writes count since the daemon's start; LastWrites are the latest, the last one
	// at the end.
	Writes     []Writes        `json:"writes"`
	LastWrites []history.Event `json:"lastWrites"`
	// CPUs are those that are present, also while they are offline.
	CPUs []CPU `json:"cpus"`
	// Topology is what `cpupoold topology -o json` prints.
	Topology *topology.Topology `json:"topology,omitempty"`
}

// Daemon is the program that answers.
type Daemon struct {
	BuildVersion string    `json:"buildVersion"`
	Commit       string    `json:"commit"`
	Go           string    `json:"go"`
	Started      time.Time `json:"started"`
	// Mode is enforce or observe; with observe nothing is written, and Owed writes would
	// be due.
	Mode string `json:"mode"`
	Owed int    `json:"owed,omitempty"`
	// Ready says that everything that could be placed has been placed once.
	Ready bool `json:"ready"`
}

// Config is the configuration in force.
type Config struct {
	// File is empty where there is none.
	File string `json:"file,omitempty"`
	// Error is why what the file says now is not in force.
	Error string `json:"error,omitempty"`
	// Adapted says what of it cannot be had on this machine, one sentence each.
	Adapted []string `json:"adapted,omitempty"`
	// Settings are its main keys.
	Settings []Setting `json:"settings"`
	// Offline are configured CPUs that are offline.
	Offline cpuset.Set `json:"offline"`
}

// Setting is a key of the configuration file with the value in force.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Passes are the daemon's looks at the node.
type Passes struct {
	OK     uint64 `json:"ok"`
	Failed uint64 `json:"failed"`
	// Unavailable counts the passes that failed only because the container runtime or systemd
	// did not answer. Failed does not contain them.
	Unavailable uint64 `json:"unavailable"`
	// Last is when the last one began, LastSuccess when the last one ended after which
	// all was as planned. Absent before the first.
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
	// Name is management, shared or guaranteed; Type the workload type of a management
	// pool.
	Name string `json:"name"`
	Type string `json:"type,omitempty"`
	// CPUs are those that are online, of the shared pool those that it has now.
	CPUs cpuset.Set `json:"cpus"`
	// Owned, Free, Idle, Resting and Parked are of use in the guaranteed pool: what
	// somebody has or is reserved for a pod, what nobody has, and what is kept empty for
	// the rest of an owner's core, out of the shared pool for a while, and from everybody
	// by the kernel.
	Owned   cpuset.Set `json:"owned,omitzero"`
	Free    cpuset.Set `json:"free,omitzero"`
	Idle    cpuset.Set `json:"idle,omitzero"`
	Resting cpuset.Set `json:"resting,omitzero"`
	Parked  cpuset.Set `json:"parked,omitzero"`
	// FromShared says that the guaranteed pool is a part of the shared one.
	FromShared bool `json:"fromShared,omitempty"`
	// Containers counts the containers and units in the pool.
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
	// Unit says that it is a unit: Name is its name, and there is no pod and no ID.
	Unit      bool   `json:"unit,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	Name      string `json:"name"`
	ID        string `json:"id,omitempty"`
	// State is created, running or exited; exited ones are here while CPUs are held for
	// them.
	State string `json:"state,omitempty"`
	Pool  string `json:"pool"`
	Type  string `json:"type,omitempty"`
	// CPUs is where it is to run. With Exclusive they are its own, and Mixed are those that
	// it shares with others beside them.
	CPUs      cpuset.Set `json:"cpus"`
	Exclusive bool       `json:"exclusive,omitempty"`
	Mixed     cpuset.Set `json:"mixed,omitzero"`
	// Mode is what keeps others off exclusive CPUs: cpuset, partition-root or
	// partition-isolated.
	Mode string `json:"mode,omitempty"`
	// Code is the stable name of the reason, Reason the sentence.
	Code   string `json:"code"`
	Reason string `json:"reason"`
	// Refused says that it should have CPUs of its own, and has none.
	Refused bool `json:"refused,omitempty"`
	// Cgroup is a path below the cgroup root; empty while it does not run.
	Cgroup string `json:"cgroup,omitempty"`
}

// Auxiliary is a cgroup in the slice of a pod that belongs to no container.
type Auxiliary struct {
	Cgroup string `json:"cgroup"`
	// Kind is monitor (conmon of CRI-O), sandbox (the pod's containers run in it: a virtual
	// machine, or gVisor) or other.
	Kind string `json:"kind"`
	// Pod is namespace/name. It is empty if the runtime does not report the pod.
	Pod    string `json:"pod,omitempty"`
	PodUID string `json:"podUID,omitempty"`
	Pool   string `json:"pool"`
	Type   string `json:"type,omitempty"`
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

// Full is the container's name in full: namespace/pod/name, or that of the unit.
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

// Source is something that wakes the daemon. Its state is ok, polling (it does not
// exist here, and is replaced by polling), absent or lost.
type Source struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Problem is what cannot be honoured. Without pod and unit it is the node's.
type Problem struct {
	Pod       string `json:"pod,omitempty"` // namespace/name
	PodUID    string `json:"podUID,omitempty"`
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	Code      string `json:"code"`
	Text      string `json:"text"`
}

// Name is the object of the problem.
func (p Problem) Name() string {
	name := cmp.Or(p.Pod, p.PodUID, p.Unit, "node")
	if p.Container != "" {
		name += "/" + p.Container
	}
	return name
}

// String is one line with the code.
func (p Problem) String() string { return p.Name() + ": " + p.Text + " (" + p.Code + ")" }

// Fault is a cgroup that is not as planned.
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

// Writes counts writes of a way: file, cri, dbus or nri.
type Writes struct {
	Via    string `json:"via"`
	OK     uint64 `json:"ok"`
	Failed uint64 `json:"failed"`
}

// CPU is a logical CPU and whose it is. The numbers are the kernel's, as in the lists of
// the topology: Core and L3 are the lowest CPU of theirs, Die is unique in its package
// only. They are -1 while the CPU is offline: the kernel does not tell.
type CPU struct {
	ID      int  `json:"id"`
	Online  bool `json:"online"`
	Core    int  `json:"core"`
	L3      int  `json:"l3"`
	Die     int  `json:"die"`
	Package int  `json:"package"`
	Node    int  `json:"node"`
	// Pool is empty for CPUs of no pool; Type is the workload type of a management pool.
	Pool string `json:"pool,omitempty"`
	Type string `json:"type,omitempty"`
	// Owner is the full name of who has the CPU to itself: namespace/pod/container, or a
	// unit; namespace/pod where it is reserved for a pod.
	Owner string `json:"owner,omitempty"`
	// Use says what the CPU is good for now: pool (everybody of its pool), owned,
	// reserved, free, idle, resting, parked, offline, or none (in no pool).
	Use string `json:"use"`
	// Busy is for how many seconds since the boot it was not idle (/proc/stat, proc_stat(5)).
	// The difference between two states is what it did between them. Absent where the kernel
	// does not tell.
	Busy float64 `json:"busy,omitempty"`
}

// Sizes returns the owned and the free CPUs of the guaranteed pool for a table, and empty texts for
// other pools.
func (p *Pool) Sizes() (owned, free string) {
	if p.Name != Guaranteed {
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

// Claim enters what the pool makes of a CPU that is online. The pools are asked in their
// order: the guaranteed one has the last word, as it may be a part of the shared one.
func (p *Pool) Claim(c *CPU) {
	if p.Name != Guaranteed {
		if p.CPUs.Contains(c.ID) && (c.Pool == "" || p.Name != Shared) {
			c.Pool, c.Type, c.Use = p.Name, p.Type, "pool"
		}
		return
	}
	if !p.CPUs.Contains(c.ID) {
		return
	}
	use := ""
	switch {
	case p.Owned.Contains(c.ID):
		use = "owned"
	case p.Parked.Contains(c.ID):
		use = "parked"
	case p.Idle.Contains(c.ID):
		use = "idle"
	case p.Resting.Contains(c.ID):
		use = "resting"
	case p.FromShared:
		return // it is the shared pool's until somebody needs it
	default:
		use = "free"
	}
	c.Pool, c.Type, c.Use = p.Name, "", use
}
