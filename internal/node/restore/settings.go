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

// restoreSettings restores the settings of the host outside of cgroups. With dryRun it only
// lists them; otherwise the caller must hold the node's writer lock.
func restoreSettings(ctx context.Context, c *config.Config, t *topology.Topology, dryRun bool) (tune.Report, error) {
	var exclusive cpuset.Set
	var s desired.Settings
	if _, err := s.Begin(c, t, nil); err == nil {
		exclusive = s.Ownable()
	}
	r, _, err := hosttuning.Restoring(c, tune.Machine{Possible: t.Possible, Online: t.Online}, exclusive)
	if err != nil {
		return tune.Report{}, err
	}
	return tune.Restore(ctx, r, dryRun)
}
