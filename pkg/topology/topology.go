package topology

import (
	"io/fs"
	"path"
	"slices"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Topology describes a machine's CPUs at one moment. It is immutable
// after [Read] and may be shared. CPUs, and with them all groups and nodes, hold
// online CPUs only: the kernel shows no topology for the others.
type Topology struct {
	// Possible, Present and Online are the CPUs that could ever appear, that are
	// plugged in, and that run (Documentation/admin-guide/cputopology.rst).
	// Isolated and NohzFull are the CPUs of isolcpus=domain and nohz_full= on the
	// kernel command line; empty if the kernel has no such file.
	Possible cpuset.Set `json:"possible"`
	Present  cpuset.Set `json:"present"`
	Online   cpuset.Set `json:"online"`
	Isolated cpuset.Set `json:"isolated"`
	NohzFull cpuset.Set `json:"nohzFull"`

	CPUs []CPU `json:"cpus"` // sorted by ID

	// Each of these lists partitions the online CPUs and is sorted by the lowest
	// CPU of its groups. L3s are the last-level caches, whatever their level; where
	// the kernel shows none, the CPUs of one package and one node. Dies are the
	// packages where the architecture has no dies.
	Cores    []Group `json:"cores"`
	L3s      []Group `json:"l3s"`
	Dies     []Group `json:"dies"`
	Packages []Group `json:"packages"`

	// Nodes holds the online NUMA nodes, sorted by ID; they partition the online
	// CPUs too, but a node may have no CPUs. A package may have several nodes (SNC, NPS)
	// and a node several packages. A kernel without NUMA is shown as one node 0.
	Nodes []Node `json:"nodes"`

	// Warnings are contradictions in the description of the machine, each with the
	// assumption that [Read] or [Assemble] made and a remedy.
	Warnings []string `json:"warnings,omitempty"`
}

// Group is a set of CPUs that share something.
type Group struct {
	// ID is the kernel's number of a package (physical_package_id) or of a die (die_id,
	// which is unique in its package only), or -1 if the kernel has no number. Packages that the
	// kernel distinguishes without a unique number (s390x) are numbered from 0. The ID of a core
	// or cache is its lowest CPU, because the kernel's numbers are not unique, or missing.
	ID   int        `json:"id"`
	CPUs cpuset.Set `json:"cpus"`
}

// Node is a NUMA node. CPUs is empty for nodes that have memory only (CXL, HBM).
type Node struct {
	ID   int        `json:"id"`
	CPUs cpuset.Set `json:"cpus"`
	// Distances[i] is the distance to Topology.Nodes[i] in the units of ACPI SLIT,
	// where 10 is local.
	Distances []int `json:"distances"`
	HasMemory bool  `json:"hasMemory"`
}

// CPU is one online logical CPU (a hardware thread).
type CPU struct {
	ID int `json:"id"` // kernel's CPU number
	// Core, L3, Die, Package and Node are indices into the lists of that name in
	// Topology, not the kernel's numbers.
	Core    int `json:"core"`
	L3      int `json:"l3"`
	Die     int `json:"die"`
	Package int `json:"package"`
	Node    int `json:"node"`
	// Kind distinguishes the fast from the small cores of a hybrid machine.
	Kind CoreKind `json:"kind"`
	// Capacity is the kernel's cpu_capacity, up to 1024 for the fastest CPUs of the
	// machine, or 0 if the kernel does not report it.
	Capacity int `json:"capacity"`
}

// CPU returns the online CPU with the given number, and false without one.
func (t *Topology) CPU(id int) (CPU, bool) {
	i, ok := slices.BinarySearchFunc(t.CPUs, id, func(cpu CPU, id int) int { return cpu.ID - id })
	if !ok {
		return CPU{}, false
	}
	return t.CPUs[i], true
}

// ThreadSiblings returns the online CPUs of the core that id belongs to, id
// included; the empty set when id is not online.
func (t *Topology) ThreadSiblings(id int) cpuset.Set {
	cpu, ok := t.CPU(id)
	if !ok {
		return cpuset.Set{}
	}
	return t.Cores[cpu.Core].CPUs
}

// ThreadsPerCore returns the largest number of online threads in one core: 1
// without SMT, 2 on a hybrid machine of which only the fast cores have two.
func (t *Topology) ThreadsPerCore() int {
	most := 0
	for _, core := range t.Cores {
		most = max(most, core.CPUs.Len())
	}
	return most
}

// Current reports whether the same CPUs are present and online in the tree that is mounted on
// /sys as when t was read. It reads two files. The possible CPUs are fixed at boot.
func (t *Topology) Current(sys fs.FS) (bool, error) {
	s := newSysfs(sys)
	for name, was := range map[string]cpuset.Set{"present": t.Present, "online": t.Online} {
		if is, err := s.list(path.Join(cpuDir, name)); err != nil || !is.Equal(was) {
			return false, err
		}
	}
	return true, nil
}
