package preview

import (
	"context"
	"log/slog"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// Owners says whose the CPUs of the node are, as DryRun decides it, and what could not be
// read for that. It writes nothing, and a daemon may run or not.
func Owners(ctx context.Context, c *config.Config, t *topology.Topology, log *slog.Logger) (audit.Ownership, []string, error) {
	p, err := DryRun(ctx, c, t, log)
	return p.Ownership, p.Unread, err
}
