package cgroup

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Driver is the kubelet's cgroupDriver: the software that creates the cgroups of pods.
type Driver string

// The two drivers of kubelet, containerd and CRI-O.
const (
	DriverSystemd  Driver = "systemd"
	DriverCgroupfs Driver = "cgroupfs"
)

// Via is the way in which a value gets to the kernel.
type Via string

// The ways. A file write takes effect at once. In a cgroup that systemd manages
// it is temporary: the next daemon-reload or property change restores the
// unit's value. The other ways also record the value.
const (
	File Via = "file" // one write to a file of the cgroup
	CRI  Via = "cri"  // UpdateContainerResources of the container
	DBus Via = "dbus" // SetUnitProperties of the unit
	NRI  Via = "nri"  // an update in the answer to the creation of another container
)

// The properties that a Write can have, by Via.
const (
	FileCPUs   = "cpuset.cpus"        // File
	FileMems   = "cpuset.mems"        // File; see Write.Slow
	FileWeight = "cpu.weight"         // File
	FileMax    = "cpu.max"            // File
	CRICPUs    = "cpuset_cpus"        // CRI: LinuxContainerResources
	CRIMems    = "cpuset_mems"        // CRI
	UnitCPUs   = "AllowedCPUs"        // DBus: systemd.resource-control(5), v244
	UnitMems   = "AllowedMemoryNodes" // DBus: v244
	UnitWeight = "CPUWeight"          // DBus
	UnitQuota  = "CPUQuotaPerSecUSec" // DBus: microseconds a second, "infinity" for none

	// UnitPartition is a property that no Write has: member, root or isolated, which systemd
	// writes to cpuset.cpus.partition (systemd.resource-control(5), v261).
	UnitPartition = "CPUSetPartition"

	ValueMax = "max"      // of FileMax: no quota
	ValueInf = "infinity" // of UnitQuota: no quota
)

// Target is the desired state of a cgroup. Fields with zero values change nothing.
type Target struct {
	Path Path
	// Container is the CRI id of an ordinary container; empty for what CRI
	// cannot update: scopes of sandboxes (pause) and slices.
	Container string
	// NoCRI reports that the runtime would record other CPUs than the CPUs of an update. Then
	// Diff updates no values over CRI: as for a target without Container, only systemd
	// records the values.
	NoCRI    bool
	FileOnly bool // runtime and systemd keep no values of the cgroup: Diff writes its files alone
	// Unit is the name of a systemd unit in the configuration. Path is its cgroup, or will be
	// when the unit starts (see [Unit]). Its properties are set over D-Bus with both drivers,
	// also while it is stopped. Empty for all others.
	Unit string
	// CPUs is the set to run on; empty changes nothing, as for most slices of pods.
	// Cgroups with CPUs must not contain each other, except with Around. The CPUs of a cgroup
	// bound the cgroups below it, whatever their own files contain: a unit with Delegate= has
	// its CPUs as a whole.
	CPUs      cpuset.Set
	Exclusive bool // no other target may run on CPUs, except on Mixed, and except targets of the same Group
	// Group names the targets that share their exclusive CPUs with each other, such as containers
	// of one pod; empty for all other targets.
	Group string
	// Mixed is the part of CPUs that an exclusive target shares with others; none of
	// them may be exclusive for another target. Empty for all others.
	Mixed cpuset.Set
	// Around is true for a slice of host services or of a pod, of which other
	// targets may be part: CPUs must have all of theirs. It is neither Exclusive nor within
	// another one that is Around. Only a slice of host services has a Unit.
	Around bool
	// Mems are the NUMA nodes to take memory from; empty does not change them. A change moves
	// the memory of other nodes, so it is written only if the value differs, and after the
	// cgroup runs on its CPUs. All nodes undo it.
	Mems      cpuset.Set
	Weight    uint64 // cpu.weight, 1..10000; 0 does not change it
	Unlimited bool   // there must be no quota
	// Quota and Period are the quota to restore, in microseconds: 1000..2^40 in a
	// period of 1000..1000000. A Quota of 0 does not change it. A Period of 0 is the
	// kernel's default of 100000. Unlimited takes precedence.
	Quota, Period int64
	Reason        string // why, for people; it is copied to each Write
}

// Own returns the CPUs that no other target may run on: empty without Exclusive.
func (t *Target) Own() cpuset.Set {
	if !t.Exclusive {
		return cpuset.Set{}
	}
	return t.CPUs.Difference(t.Mixed)
}

// Partitionable reports whether all CPUs of the target are exclusive, as a partition requires.
func (t *Target) Partitionable() bool { return t.Exclusive && t.Mixed.IsEmpty() && t.Group == "" }

// Unpartitionable returns the reason why an owner with shared CPUs is not a partition.
func (t *Target) Unpartitionable() string {
	if t.Group != "" {
		return "other containers of its pod run on its CPUs, and a partition has one container; load balancing stays on"
	}
	return fmt.Sprintf("it also runs on the shared CPUs %s, and all CPUs of a partition are exclusive; load balancing stays on", t.Mixed)
}

// Confines reports whether the target is the slice of a pod with CPUs. Such a slice bounds
// containers that write their own cpuset.cpus.
func (t *Target) Confines() bool { return t.Around && t.Unit == "" }

// Current is the current state of a cgroup: the values of the kernel, and the recorded
// settings, which their recorder may restore.
type Current struct {
	State
	// Exists is false for a created container without a cgroup (containerd creates it
	// at start), and for a stopped unit: then only the recorded values can be
	// changed.
	Exists bool
	// Recorded is the cpuset that would be restored: of the container's OCI
	// spec, or of the unit (AllowedCPUs) if CRI cannot update the cgroup. Empty means
	// no value. RecordedKnown is false if the recorder could not be queried.
	Recorded      cpuset.Set
	RecordedKnown bool
	// RecordedMems are the NUMA nodes in the container's OCI spec, known if
	// Recorded is; empty means no value. Unit holds the nodes of a unit.
	RecordedMems cpuset.Set
	// Pending is the cpuset of a submitted update whose result is unknown: the cgroup
	// may get it at any moment. Empty means no update. Updates of one cgroup must be
	// carried out in the order of their submission.
	Pending cpuset.Set
	Unit    UnitState // systemd's settings for the cgroup; used with DriverSystemd only
	// NoWrite reports that the kernel refused a write to this cgroup in this pass,
	// NoRecord that its recorder did. Then Diff plans no more of these writes. It counts the
	// CPUs that the cgroup holds, so that writes to other cgroups go on if that is safe.
	NoWrite, NoRecord bool
	// Left are the files among FileCPUs, FileMems, FileWeight and FileMax with a write
	// conflict, whose repairs pause. Diff plans no writes to them, nor to their recorded
	// values. It plans all other writes as before.
	Left []string
	// Drifted are the files among them that another process has changed from the desired
	// value. They are written at once. The caller must check the recorded values.
	Drifted []string
}

func (c *Current) left(file string) bool { return slices.Contains(c.Left, file) }

// UnitState holds systemd's settings of a unit.
type UnitState struct {
	Known bool // false when the unit could not be asked
	// CPUs is AllowedCPUs, Mems AllowedMemoryNodes; empty when not set.
	CPUs, Mems cpuset.Set
	Weight     uint64 // CPUWeight, 1..10000; 0 when it is not set
	Quota      int64  // CPUQuotaPerSecUSec in microseconds a second; -1 for infinity
}

// Write is one step of a plan.
type Write struct {
	Path      Path   `json:"path"`
	Container string `json:"container,omitempty"`
	Via       Via    `json:"via"`
	Property  string `json:"property"`
	Value     string `json:"value"`
	Reason    string `json:"reason,omitempty"`
}

// Slow reports whether the write may take long, and needs a worker. It waits for the
// runtime or systemd, or for the kernel, which moves memory between nodes before a
// write(2) to cpuset.mems returns.
func (w Write) Slow() bool { return w.Via != File || w.Property == FileMems }

// String is the line that `cpupoold plan` prints: way, property, value, place
// and reason.
func (w Write) String() string {
	s := fmt.Sprintf("%s %s=%s %s", w.Via, w.Property, w.Value, w.Path)
	if w.Container != "" {
		s += " container=" + w.Container
	}
	if w.Reason != "" {
		s += " # " + w.Reason
	}
	return s
}

// Deferred is a difference that cannot be written now.
type Deferred struct {
	Path      Path   `json:"path"`
	Container string `json:"container,omitempty"`
	Property  string `json:"property"`
	Reason    string `json:"reason"`             // cause and remedy
	WaitsFor  []Path `json:"waitsFor,omitempty"` // cgroups that must release CPUs first, if any
}

// Options are the properties of the node that Diff needs.
type Options struct {
	Driver   Driver
	Possible cpuset.Set // kernel's possible CPUs, to which AllowedCPUs is masked
	// Nodes are the NUMA nodes with memory, to which Mems is masked: the value of the
	// root's cpuset.mems.effective. Empty masks no nodes.
	Nodes cpuset.Set
	// Spare are CPUs on which an exclusive container may stay for a moment if
	// two containers change places: online CPUs of its pool without an owner.
	Spare cpuset.Set
	// Owned are the exclusive CPUs of all targets, also of those that Diff does not get. A cgroup that
	// makes way leaves them if it can.
	Owned cpuset.Set
	// Leaving are the exclusive CPUs of cgroups that are no longer targets and that the
	// owner has not left for good. Diff treats these cgroups as exclusive targets.
	Leaving map[Path]cpuset.Set
}
