package cgroup

import (
	"fmt"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Driver is who makes the cgroups of pods: the kubelet's cgroupDriver.
type Driver string

// The two drivers of kubelet, containerd and CRI-O.
const (
	DriverSystemd  Driver = "systemd"
	DriverCgroupfs Driver = "cgroupfs"
)

// Via is the way in which a value gets to the kernel.
type Via string

// The ways. A file write takes effect at once, but where systemd manages
// the cgroup it is only a cache entry: the next daemon-reload or property
// change puts back what the unit says. The others are what makes it last.
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

// Target is what a cgroup should be. Fields with zero values are left alone.
type Target struct {
	Path Path
	// Container is the CRI id of an ordinary container; empty for what CRI
	// cannot update: scopes of sandboxes (pause) and slices.
	Container string
	// NoCRI reports that the runtime would record other CPUs than those of an update. Then
	// Diff updates nothing over CRI: as for a target without Container, only systemd
	// records the values.
	NoCRI    bool
	FileOnly bool // runtime and systemd keep no values of the cgroup: Diff writes its files alone
	// Unit is the systemd unit that the configuration names and whose cgroup Path
	// is, or will be when it starts (see [Unit]): its properties are set over
	// D-Bus with both drivers, and while it is stopped too. Empty for all others.
	Unit string
	// CPUs is the set to run on; empty changes nothing, as for most slices of pods.
	// Cgroups with CPUs must not contain each other, but for Around. What is below a cgroup is
	// bounded by its set, whatever it asks for itself: a unit with Delegate= has
	// its CPUs as a whole.
	CPUs      cpuset.Set
	Exclusive bool // no other target may run on CPUs, except on Mixed, and except targets of the same Group
	// Group names the targets that share their exclusive CPUs with each other, such as containers
	// of one pod; empty for all other targets.
	Group string
	// Mixed are those of CPUs that a target that is Exclusive shares with others; none of
	// them may be another target's own. Empty for all others.
	Mixed cpuset.Set
	// Around is true for a slice of host services or of a pod, of which other
	// targets may be part: CPUs must have all of theirs. It is neither Exclusive nor within
	// another one that is Around. Only a slice of host services has a Unit.
	Around bool
	// Mems are the NUMA nodes to take memory from; empty leaves them alone. The
	// kernel moves memory that is elsewhere, so it is written only when it
	// differs, and once the cgroup is on its CPUs. To undo it name all nodes.
	Mems      cpuset.Set
	Weight    uint64 // cpu.weight, 1..10000; 0 leaves it alone
	Unlimited bool   // there must be no quota
	// Quota and Period are the quota to put back, in microseconds: 1000..2^40 in a
	// period of 1000..1000000. A Quota of 0 leaves it alone, a Period of 0 is the
	// kernel's default of 100000. Unlimited goes before them.
	Quota, Period int64
	Reason        string // why, for people; it is copied to each Write
}

// Own are the CPUs that no other target may run on: none of one that is not Exclusive.
func (t *Target) Own() cpuset.Set {
	if !t.Exclusive {
		return cpuset.Set{}
	}
	return t.CPUs.Difference(t.Mixed)
}

// Confines reports whether the target is the slice of a pod with CPUs. Such a slice bounds
// containers that write their own cpuset.cpus.
func (t *Target) Confines() bool { return t.Around && t.Unit == "" }

// Current is what a cgroup is: the kernel's word, and that of whoever records
// the cgroup's settings and may put them back.
type Current struct {
	State
	// Exists is false for a container that was created and has no cgroup yet
	// (containerd makes it at start), and for a unit that is stopped: only the
	// record can be changed.
	Exists bool
	// Recorded is the cpuset that would be put back: of the container's OCI
	// spec, or of the unit (AllowedCPUs) for what CRI cannot update. Empty means
	// none. RecordedKnown is false when nobody could be asked.
	Recorded      cpuset.Set
	RecordedKnown bool
	// RecordedMems are the NUMA nodes in the container's OCI spec, known when
	// Recorded is; empty means none. Those of a unit are in Unit.
	RecordedMems cpuset.Set
	// Pending is the cpuset of a seal that has been submitted and whose end is
	// not known: the cgroup may get it at any moment. Empty means none. Seals of
	// one cgroup must be carried out in the order of their submission.
	Pending cpuset.Set
	Unit    UnitState // what systemd holds for the cgroup; used with DriverSystemd only
	// NoWrite says that the kernel refused a write to this cgroup in this pass,
	// NoSeal that its recorder did. Diff then plans no more of them, but counts
	// what the cgroup holds, so that the others get on where that is safe.
	NoWrite, NoSeal bool
	// Left are the files among FileCPUs, FileMems, FileWeight and FileMax that somebody
	// else writes, too, and that are left to him for now. Diff plans nothing for them,
	// nor for what is recorded of them; the others are as ever.
	Left []string
	// Drifted are those of them that were as wanted until somebody else wrote them. They
	// are written at once; whether the record is still right, the caller has to find out.
	Drifted []string
}

func (c *Current) left(file string) bool { return slices.Contains(c.Left, file) }

// UnitState is what systemd holds for a unit.
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

// Slow says that the write may take more than a moment, and belongs to a worker:
// it waits for the runtime or systemd, or for the kernel to move memory from node
// to node, which cpuset.mems does before write(2) returns.
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
	Reason    string `json:"reason"`             // why, and what would change it
	WaitsFor  []Path `json:"waitsFor,omitempty"` // cgroups that have to give way first, if any
}

// Options are what Diff has to know about the node.
type Options struct {
	Driver   Driver
	Possible cpuset.Set // kernel's possible CPUs: what AllowedCPUs is masked to
	// Nodes are the NUMA nodes with memory, which Mems is masked to: those of the
	// root's cpuset.mems.effective. Empty masks nothing.
	Nodes cpuset.Set
	// Spare are CPUs on which an exclusive container may stay for a moment when
	// two change places: online, of its pool, and planned for nobody.
	Spare cpuset.Set
	// Leaving are the CPUs of cgroups that are no targets any more and whose owner has
	// not left them for good: they hold these as if they were exclusive.
	Leaving map[Path]cpuset.Set
}
