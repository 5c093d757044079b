package daemon

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/power"
	"github.com/cpupoold/cpupoold/internal/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// TunePreview is what would be done to the host's settings.
type TunePreview struct {
	// Quiet and NoKernel are the CPUs that interrupts, and threads of the kernel, are kept
	// off.
	Quiet    cpuset.Set    `json:"quiet,omitzero"`
	NoKernel cpuset.Set    `json:"noKernelThreads,omitzero"`
	Changes  []tune.Change `json:"changes,omitempty"`
	Stuck    []tune.Stuck  `json:"stuck,omitempty"`
	// Elsewhere are the containers whose interrupts another manager moves, and which.
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
	Unread    string            `json:"unread,omitempty"`
}

// restoring is what tune needs to put settings back, or to say what it would change.
func restoring(o Options) (tune.Restoring, *power.Host, error) {
	bootID, err := readBootID()
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	m := tune.Machine{Possible: o.Topology.Possible, Online: o.Topology.Online}
	sources, host, err := tuningSources(m)
	if err != nil {
		return tune.Restoring{}, nil, err
	}
	r := tune.Restoring{Sources: sources, Undo: undoOf(o.Config, bootID), Machine: m}
	var s settings
	if _, err := s.begin(o.Config, o.Topology); err == nil {
		r.Exclusive = s.ownable()
	}
	return r, host, nil
}

// previewTuning completes a preview. The daemon's own state is not known here: what the
// containers wish is.
func previewTuning(ctx context.Context, o Options, p *Preview) error {
	r, host, err := restoring(o)
	if err != nil {
		return err
	}
	var powerless []pools.Problem
	p.wish.Values, powerless = p.power(host.Machine())
	p.Plan.Problems = append(p.Plan.Problems, powerless...)
	d, err := tune.Preview(ctx, r, p.wish)
	t := &TunePreview{Quiet: p.wish.Quiet, NoKernel: p.wish.NoKernel, Changes: d.Changes, Stuck: d.Stuck, Elsewhere: p.elsewhere}
	if err != nil {
		t.Unread = err.Error()
	}
	if !p.wish.Empty() || len(d.Changes) > 0 || err != nil || len(p.elsewhere) > 0 {
		p.Tuning = t
	}
	return nil
}

// RestoreSettings gives the host's settings outside of cgroups back. The caller holds the
// node's writer lock. With dryRun nothing is written.
func RestoreSettings(ctx context.Context, o Options, dryRun bool) (tune.Report, error) {
	r, _, err := restoring(o)
	if err != nil {
		return tune.Report{}, err
	}
	return tune.Restore(ctx, r, dryRun)
}
