package restore

import (
	"context"
	"fmt"
	"time"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/internal/node/undo"
)

// # A lost journal
//
// Without a journal nobody knows what there was before the daemon. But what the daemon
// would write now is known, as it is to `cpupoold plan`; and a value that is exactly that is
// taken to be the daemon's. In its place comes what would be there without cpupoold: the
// kernel's default (all CPUs, all NUMA nodes, no quota, weight 100), systemd's (nothing
// set), or what the kubelet asked the runtime for.

// presumed are originals that stand in for those of a lost journal.
func presumed(h *hostenv.Host, ctx context.Context, o Options, j undo.Document) ([]undo.Original, error) {
	var s desired.Settings
	if err := s.Change(o.Config, o.Topology, nil); err != nil {
		return nil, err
	}
	p, err := preview.PreviewOf(ctx, *h, s, undo.Document{BootID: j.BootID}, preview.PeekRights(o.Config, o.Log), time.Now())
	if err != nil {
		return nil, fmt.Errorf("what the daemon may have changed is not known: %w", err)
	}
	return p.Traces.Originals(h), nil
}

// lostNote says that defaults stand in for a journal.
func lostNote(name string, damage error, o []undo.Original) string {
	switch {
	case damage != nil:
		return fmt.Sprintf("%v: the defaults of kernel, systemd and kubelet stand in for what it said", damage)
	case len(o) == 0:
		return fmt.Sprintf("the journal %s is lost, and no value is as the daemon writes it: there is nothing to put back", name)
	}
	return fmt.Sprintf("the journal %s is lost: for values that are exactly as the daemon writes them, the defaults of kernel, systemd and kubelet stand in for what they were", name)
}
