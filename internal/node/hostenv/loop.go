package hostenv

import (
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Host is the outside world as the owner uses it: files of cgroups directly,
// everything else through workers.
type Host struct {
	Cgroups     *cgroup.FS
	Driver      cgroup.Driver
	Possible    cpuset.Set
	Nodes       cpuset.Set             // NUMA nodes with memory
	Runtime     Runtime                // nil without a container runtime
	Units       Units                  // nil without systemd
	Devices     Devices                // nil when the kubelet is not asked
	CPUManager  cpuManager             // nil when the kubelet gives no CPUs away
	CPUs        cpuSource              // nil when CPUs are not watched
	JournalFile string                 // file name
	RunDir      string                 // directory of the files for applications
	Kernel      cgroup.PartitionKernel // what it can do with partitions
	Online      func() cpuset.Set      // CPUs that are plugged in
	Boot        BootFacts
	// Observes says that nothing is to be written (observe.go).
	Observes bool
	// NRISocket is the runtime's NRI; empty when it is not used.
	NRISocket string
	// CRIO reads what other managers of CPUs are told to do; nil where the runtime
	// is none.
	CRIO func() managers.CRIO
	// UnitFile reads a file that systemd reads units from.
	UnitFile func(name string) ([]byte, error)
}
