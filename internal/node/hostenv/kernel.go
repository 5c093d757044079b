package hostenv

import (
	"fmt"
	"os"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// BootFacts holds the kernel's command line as package noise reads it.
type BootFacts struct {
	noise.Boot
	Unknown bool  // the command line is unreadable
	Err     error // why Boot is unknown or incomplete
}

func readBoot(possible cpuset.Set) BootFacts {
	b, err := os.ReadFile(ProcRoot + "/cmdline")
	if err != nil {
		return BootFacts{Unknown: true, Err: fmt.Errorf("read kernel command line: %w", err)}
	}
	boot, err := noise.ParseBoot(string(b), possible.Last()+1)
	return BootFacts{Boot: boot, Err: err}
}

func runningKernel() (cgroup.PartitionKernel, error) {
	b, err := os.ReadFile(ProcRoot + "/sys/kernel/osrelease")
	if err != nil {
		return cgroup.PartitionKernel{}, fmt.Errorf("read kernel release: %w", err)
	}
	return cgroup.ParsePartitionKernel(strings.TrimSpace(string(b)))
}

// ReadBootID returns the identifier of the kernel's boot.
func ReadBootID() (string, error) {
	b, err := os.ReadFile(ProcRoot + "/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// onlineCPUs returns a reader of the online CPUs, with the CPUs of the topology as fallback.
func onlineCPUs(t *topology.Topology) func() cpuset.Set {
	return func() cpuset.Set {
		b, err := os.ReadFile(SysRoot + "/devices/system/cpu/online")
		if err != nil {
			return t.Online
		}
		online, err := cpuset.Parse(strings.TrimSpace(string(b)))
		if err != nil {
			return t.Online
		}
		return online
	}
}
