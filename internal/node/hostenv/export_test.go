package hostenv

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/annotations"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

// Names for tests.
const (
	CPUManagerFile = cpuManagerFile
	StateTimeout   = stateTimeout
)

// ReadBoot is readBoot for tests.
var ReadBoot = readBoot

// AwaitRuntime waits as Wait does, but reads the kubelet's slices from fs. It returns the
// cgroup driver of the runtime.
func (s *Start) AwaitRuntime(ctx context.Context, fs *cgroup.FS) (cgroup.Driver, error) {
	rt, _, err := s.awaitRuntime(ctx, fs)
	rt.close()
	return rt.driver, err
}

// DialRuntime returns the client of the configured runtime, and the filter of its annotations.
func DialRuntime(ctx context.Context, c *config.Config, fs *cgroup.FS) (*cri.Client, *annotations.Filter, error) {
	rt, err := connect(ctx, c, fs)
	return rt.client, rt.annotations, err
}

// NewStateFile returns a state file that is read with read.
func NewStateFile(name string, read func(string, int64) ([]byte, error)) cpuManager {
	if read == nil {
		read = readFile
	}
	return &stateFile{name: name, read: read}
}
