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

// counts are the CPUs of an owner on which the kernel does work of its own, by source.
func counts(b hostenv.BootFacts, r noise.Report) map[string]int {
	counts := map[string]int{"balancing": r.Balanced.Len(), "tick": r.Tick.Len()}
	if !b.Unknown {
		counts["rcu"], counts["managed_irq"] = r.RCU.Len(), r.ManagedIRQ.Len()
	}
	return counts
}

func (l *Loop) machine() noise.Machine { return l.settings.MachineOf(l.Boot) }

// reportNoise says in the log what each owner really has, when that has changed.
func (l *Loop) reportNoise() {
	paths := make(map[string]cgroup.Path, len(l.status.targets))
	for _, t := range l.status.targets {
		if t.Exclusive && l.cache.Current(t.Path).Exists {
			paths[t.Container] = t.Path
		}
	}
	now := make(map[string]string)
	var owned cpuset.Set
	for _, o := range desired.SoleOwners(l.status.plan) {
		owned = owned.Union(o.Cpus)
		p, runs := paths[o.Id]
		if o.Unit || !runs {
			continue
		}
		if l.partitionPending(cgroup.Target{Path: p, Exclusive: true}) {
			if was, told := l.status.noise[o.Id]; told {
				now[o.Id] = was
			}
			continue
		}
		r := l.machine().Of(o.Cpus, l.isolation.mode(p))
		if now[o.Id] = r.CPUs.String() + r.String(); now[o.Id] != l.status.noise[o.Id] {
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
