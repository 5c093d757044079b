package hostenv

import (
	"context"
	"io/fs"
	"os"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/hotplug"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

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

// Read implements cpuSource. It compares the lists of CPUs first: on a large machine a
// topology takes thousands of files.
func (k kernelCPUs) Read(before *topology.Topology) (*topology.Topology, error) {
	if same, err := before.Current(k.sys); same || err != nil {
		return before, err
	}
	return topology.Read(k.sys)
}

// onlineCPUs returns a function that reads the CPUs that are online. Without an answer of
// the kernel these are the topology's.
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
