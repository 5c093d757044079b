package preview

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
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

// previewTuning completes a preview. The daemon's own state is not known here: what the
// containers wish is.
func previewTuning(ctx context.Context, s *desired.Settings, p *Preview) error {
	r, host, err := hosttuning.Restoring(s.Config, s.TuneMachine(s.Topology.Possible), s.Ownable())
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
