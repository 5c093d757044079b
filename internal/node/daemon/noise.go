package daemon

import (
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// tuned is the event that the tuner has read or changed the host's settings.
type tuned struct{}

func (tuned) apply(*Loop) {}

func (tuned) ownResult() {}

// counts returns the numbers of an owner's CPUs on which the kernel itself runs work, by
// source.
func counts(b hostenv.BootFacts, r noise.Report) map[string]int {
	counts := map[string]int{"balancing": r.Balanced.Len(), "tick": r.Tick.Len()}
	if !b.Unknown {
		counts["rcu"], counts["managed_irq"] = r.RCU.Len(), r.ManagedIRQ.Len()
	}
	return counts
}

func (l *Loop) machine() noise.Machine { return l.settings.MachineOf(l.Boot) }

// reportNoise logs the isolation of each owner's CPUs when it has changed.
func (l *Loop) reportNoise() {
	paths := make(map[string]cgroup.Path, len(l.status.targets))
	for _, t := range l.status.targets {
		if t.Exclusive && l.cache.Current(t.Path).Exists {
			paths[t.Container] = t.Path
		}
	}
	now := make(map[string]string)
	var owned cpuset.Set
	for _, o := range desired.Owners(l.status.plan) {
		owned = owned.Union(o.CPUs)
		p, runs := paths[o.ID]
		if o.Unit || !runs {
			continue
		}
		if l.partitions.Pending(cgroup.Target{Path: p, Exclusive: true}) {
			if was, told := l.status.noise[o.ID]; told {
				now[o.ID] = was
			}
			continue
		}
		r := l.machine().Of(o.CPUs, l.partitions.Mode(p))
		if now[o.ID] = r.CPUs.String() + r.String(); now[o.ID] != l.status.noise[o.ID] {
			l.log.Info("exclusive CPUs", "pod", o.Pod, "container", o.Name, "cpus", r.CPUs, "kept_by", r.Mode, "balancing", r.Balancing(),
				"tick", r.Tick, "rcu", r.RCU, "managed_irq", r.ManagedIRQ)
		}
	}
	l.status.noise = now
	if args := l.settings.BootArguments(l.Boot, owned); len(now) > 0 && !slices.Equal(args, l.status.bootArgs) {
		l.status.bootArgs = args
		l.log.Info("kernel arguments that exclusive CPUs lack", "arguments", strings.Join(args, " "))
	}
}
