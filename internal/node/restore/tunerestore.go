package restore

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
)

// RestoreSettings gives the host's settings outside of cgroups back. The caller holds the
// node's writer lock. With dryRun nothing is written.
func RestoreSettings(ctx context.Context, o hostenv.Options, dryRun bool) (tune.Report, error) {
	r, _, err := hosttuning.Restoring(o)
	if err != nil {
		return tune.Report{}, err
	}
	return tune.Restore(ctx, r, dryRun)
}
