package publish

import (
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

func (p *Publisher) machine() noise.Machine { return p.Settings.MachineOf(p.Host.Boot) }

// reportNoise logs the isolation of each owner's CPUs when it has changed.
func (p *Publisher) reportNoise(pass *planning.Pass) {
	now := make(map[string]string)
	var owned cpuset.Set
	for _, o := range pass.Owners {
		owned = owned.Union(o.CPUs)
		at, runs := p.paths[o.ID]
		if o.Unit || !runs {
			continue
		}
		if p.Partitions.Pending(cgroup.Target{Path: at, Exclusive: true}) {
			if was, logged := p.noise[o.ID]; logged {
				now[o.ID] = was
			}
			continue
		}
		r := p.machine().Of(o.CPUs, p.Partitions.Mode(at))
		if now[o.ID] = r.CPUs.String() + r.String(); now[o.ID] != p.noise[o.ID] {
			p.Log.Info("exclusive CPUs", "pod", o.Pod, "container", o.Name, "cpus", r.CPUs, "kept_by", r.Mode, "balancing", r.Balancing(),
				"tick", r.Tick, "rcu", r.RCU, "managed_irq", r.ManagedIRQ)
		}
	}
	p.noise = now
	if args := p.Settings.BootArguments(p.Host.Boot, owned); len(now) > 0 && !slices.Equal(args, p.bootArgs) {
		p.bootArgs = args
		p.Log.Info("kernel arguments that exclusive CPUs lack", "arguments", strings.Join(args, " "))
	}
}
