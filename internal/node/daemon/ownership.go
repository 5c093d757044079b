package daemon

import (
	"fmt"
	"os"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// NewWatcher returns who looks at the tasks of this machine.
func NewWatcher() (*audit.Watcher, error) {
	cgroups, err := cgroup.Open(hostenv.CgroupRoot)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", hostenv.CgroupRoot, err)
	}
	usage := func(path string) (uint64, error) {
		used, err := cgroups.Usage(cgroup.Path(path))
		return uint64(max(used, 0)), err
	}
	// Not os.Root, which opens each part of a path: nobody but the kernel makes links in /proc.
	return audit.NewWatcher(os.DirFS(hostenv.ProcRoot), audit.Affinity, usage), nil
}
