package restore

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// RestoreSettings gives the host's settings outside of cgroups back. The caller holds the
// node's writer lock. With dryRun nothing is written.
func RestoreSettings(ctx context.Context, c *config.Config, t *topology.Topology, dryRun bool) (tune.Report, error) {
	var exclusive cpuset.Set
	var s desired.Settings
	if _, err := s.Begin(c, t); err == nil {
		exclusive = s.Ownable()
	}
	r, _, err := hosttuning.Restoring(c, tune.Machine{Possible: t.Possible, Online: t.Online}, exclusive)
	if err != nil {
		return tune.Report{}, err
	}
	return tune.Restore(ctx, r, dryRun)
}
