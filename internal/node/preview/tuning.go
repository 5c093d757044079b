package preview

import (
	"context"

	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// Tuning holds the changes of settings of the host outside of cgroups.
type Tuning struct {
	// Quiet are the CPUs without interrupts, NoKernel those without kernel threads.
	Quiet    cpuset.Set    `json:"quiet,omitzero"`
	NoKernel cpuset.Set    `json:"noKernelThreads,omitzero"`
	Changes  []tune.Change `json:"changes,omitempty"`
	Stuck    []tune.Stuck  `json:"stuck,omitempty"`
	// Elsewhere has the manager that moves a container's interrupts, by container.
	Elsewhere map[string]string `json:"elsewhere,omitempty"`
	Unread    string            `json:"unread,omitempty"`
}

// tune adds the settings of the host outside of cgroups to a preview. It returns the
// problems with power settings.
func (s *survey) tune(ctx context.Context, p *Preview) ([]pools.Problem, error) {
	settings, m := &s.input.Settings, s.input.Inventory
	r, host, err := hosttuning.Restoring(settings.Config, settings.TuneMachine(settings.Topology.Possible), settings.Ownable())
	if err != nil {
		return nil, err
	}
	wish, elsewhere := settings.Wish(s.plan, m, &s.others)
	var problems []pools.Problem
	wish.Values, problems = settings.PowerWish(s.plan, m, &s.others, host.Machine())
	d, err := tune.Preview(ctx, r, wish)
	t := &Tuning{Quiet: wish.Quiet, NoKernel: wish.NoKernel, Changes: d.Changes, Stuck: d.Stuck, Elsewhere: elsewhere}
	if err != nil {
		t.Unread = err.Error()
	}
	if !wish.Empty() || len(d.Changes) > 0 || err != nil || len(elsewhere) > 0 {
		p.Tuning = t
	}
	return problems, nil
}
