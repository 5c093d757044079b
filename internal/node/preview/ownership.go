package preview

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/audit"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
)

// Owners says whose the CPUs of the node are, as DryRun decides it, and what could not be
// read for that. It writes nothing, and a daemon may run or not.
func Owners(ctx context.Context, o hostenv.Options) (audit.Ownership, []string, error) {
	p, err := DryRun(ctx, o)
	return p.Ownership, p.Unread, err
}
