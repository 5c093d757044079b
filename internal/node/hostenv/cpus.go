package hostenv

import (
	"context"
	"io/fs"

	"github.com/cpupoold/cpupoold/internal/node/hotplug"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// cpuSource tells of CPUs that come and go.
type cpuSource interface {
	// Watch calls changed when it begins to listen, and whenever CPUs may have come
	// or gone since. It ends with ctx, or with the error of changed, or with the reason
	// why it cannot listen.
	Watch(ctx context.Context, changed func() error) error
	// Read reads the CPUs as they are; it returns what it read before if they are the
	// same.
	Read(before *topology.Topology) (*topology.Topology, error)
}

// kernelCPUs is the kernel's word.
type kernelCPUs struct{ sys fs.FS }

func (k kernelCPUs) Watch(ctx context.Context, changed func() error) error {
	return hotplug.Watch(ctx, changed)
}

// Read looks at the lists of CPUs first: on a large machine a topology is in thousands
// of files.
func (k kernelCPUs) Read(before *topology.Topology) (*topology.Topology, error) {
	if same, err := before.Current(k.sys); same || err != nil {
		return before, err
	}
	return topology.Read(k.sys)
}
