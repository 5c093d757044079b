package hostenv

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cpupoold/cpupoold/internal/node/kernelfs"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

func readBoot(possible cpuset.Set) noise.BootFacts {
	b, err := os.ReadFile(kernelfs.ProcRoot + "/cmdline")
	if err != nil {
		return noise.BootFacts{Unknown: true, Err: fmt.Errorf("read kernel command line: %w", err)}
	}
	boot, err := noise.ParseBoot(string(b), possible.Last()+1)
	return noise.BootFacts{Boot: boot, Err: err}
}

func runningKernel() (cgroup.PartitionKernel, error) {
	b, err := os.ReadFile(kernelfs.ProcRoot + "/sys/kernel/osrelease")
	if err != nil {
		return cgroup.PartitionKernel{}, fmt.Errorf("read kernel release: %w", err)
	}
	return cgroup.ParsePartitionKernel(strings.TrimSpace(string(b)))
}

// onlineCPUs returns a reader of the online CPUs, with the CPUs of the topology as fallback.
func onlineCPUs(t *topology.Topology) func() cpuset.Set {
	return func() cpuset.Set {
		b, err := os.ReadFile(kernelfs.SysRoot + "/devices/system/cpu/online")
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

// inMemory returns the name of a directory that is on a tmpfs. Otherwise it returns an empty name.
func inMemory(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		return ""
	}
	return dir
}
