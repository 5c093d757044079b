package hostenv

import (
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Host is the outside world as the owner uses it: files of cgroups directly,
// everything else through workers.
type Host struct {
	Cgroups  *cgroup.FS
	Driver   cgroup.Driver
	Possible cpuset.Set
	Nodes    cpuset.Set             // NUMA nodes with memory
	Runtime  RuntimeClient          // nil without a container runtime
	Units    UnitManager            // nil without systemd
	Devices  hintSource             // nil when the kubelet is not asked
	Manager  cpuManager             // nil when the kubelet gives no CPUs away
	Cpus     cpuSource              // nil when CPUs are not watched
	Journal  string                 // file name
	Files    string                 // directory of the files for applications
	Kernel   cgroup.PartitionKernel // what it can do with partitions
	Online   func() cpuset.Set      // CPUs that are plugged in
	Boot     BootFacts
	// Observes says that nothing is to be written (observe.go).
	Observes bool
	// NriSocket is the runtime's NRI; empty when it is not used.
	NriSocket string
	// Managers reads what other managers of CPUs are told to do; nil where the runtime
	// is none.
	Managers func() managers.CRIO
	// UnitFile reads a file that systemd reads units from.
	UnitFile func(name string) ([]byte, error)
}
