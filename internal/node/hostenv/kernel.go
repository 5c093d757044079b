package hostenv

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hotplug"
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

// cpuSource reports CPUs that are plugged, unplugged, or switched on or off.
type cpuSource interface {
	// Watch calls changed when it begins to listen, and then after each event of a CPU. It
	// ends with ctx, with the error of changed, or with the reason why it cannot listen.
	Watch(ctx context.Context, changed func() error) error
	// Read reads the present topology. It returns before if nothing has changed.
	Read(before *topology.Topology) (*topology.Topology, error)
}

type kernelCPUs struct{ sys fs.FS }

// Watch implements cpuSource.
func (k kernelCPUs) Watch(ctx context.Context, changed func() error) error {
	return hotplug.Watch(ctx, changed)
}

// Read implements cpuSource. It compares the lists first: a topology takes thousands of files.
func (k kernelCPUs) Read(before *topology.Topology) (*topology.Topology, error) {
	if same, err := before.Current(k.sys); same || err != nil {
		return before, err
	}
	return topology.Read(k.sys)
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
