package daemon

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/noise"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// bootFacts is what the kernel's command line says, or why that is not known, or not
// all of it.
type bootFacts struct {
	noise.Boot
	unknown bool // it could not be read at all
	err     error
}

func readBoot(possible cpuset.Set) bootFacts {
	b, err := os.ReadFile(procRoot + "/cmdline")
	if err != nil {
		return bootFacts{unknown: true, err: fmt.Errorf("read kernel command line: %w", err)}
	}
	boot, err := noise.ParseBoot(string(b), possible.Last()+1)
	return bootFacts{Boot: boot, err: err}
}

// counts are the CPUs of an owner on which the kernel does work of its own, by source.
func (b bootFacts) counts(r noise.Report) map[string]int {
	counts := map[string]int{"balancing": r.Balanced.Len(), "tick": r.Tick.Len()}
	if !b.unknown {
		counts["rcu"], counts["managed_irq"] = r.RCU.Len(), r.ManagedIRQ.Len()
	}
	return counts
}

// machineOf is what the machine gives, as it has booted.
func (s *settings) machineOf(b bootFacts) noise.Machine {
	return noise.Machine{Boot: b.Boot, Isolated: s.topology.Isolated, NohzFull: s.topology.NohzFull}
}

func (l *loop) machine() noise.Machine { return l.settings.machineOf(l.boot) }

// bootArguments are those that the machine lacks for who has CPUs of its own: for the
// whole pool where it is a list. What is carved out of the shared pool is known only
// when somebody has it.
func (s *settings) bootArguments(b bootFacts, owned cpuset.Set) []string {
	if b.unknown {
		return nil
	}
	if !s.pools.FromShared {
		owned = owned.Union(s.pools.Guaranteed)
	}
	if owned.IsEmpty() {
		return nil
	}
	return s.machineOf(b).Arguments(owned)
}

// soleOwner is a container or a unit that has CPUs of its own.
type soleOwner struct {
	pod, name, id string
	unit          bool
	cpus          cpuset.Set
}

// soleOwners are those of a plan that can run now, in its order.
func soleOwners(plan pools.Plan) []soleOwner {
	var all []soleOwner
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.Exclusive && c.State != pools.Exited {
				all = append(all, soleOwner{pod: pod.Namespace + "/" + pod.Name, name: c.Name, id: c.ID, cpus: c.CPUs})
			}
		}
	}
	for _, u := range plan.Units {
		if u.Exclusive {
			all = append(all, soleOwner{name: u.Name, unit: true, cpus: u.CPUs})
		}
	}
	return all
}

// reportNoise says in the log what each owner really has, when that has changed.
func (l *loop) reportNoise() {
	paths := make(map[string]cgroup.Path, len(l.status.targets))
	for _, t := range l.status.targets {
		if t.Exclusive && l.tree.current[t.Path].Exists {
			paths[t.Container] = t.Path
		}
	}
	now := make(map[string]string)
	var owned cpuset.Set
	for _, o := range soleOwners(l.status.plan) {
		owned = owned.Union(o.cpus)
		p, runs := paths[o.id]
		if o.unit || !runs {
			continue
		}
		if l.partitionPending(cgroup.Target{Path: p, Exclusive: true}) {
			if was, told := l.status.noise[o.id]; told {
				now[o.id] = was
			}
			continue
		}
		r := l.machine().Of(o.cpus, l.isolation.mode(p))
		if now[o.id] = r.CPUs.String() + r.String(); now[o.id] != l.status.noise[o.id] {
			l.log.Info("exclusive CPUs", "pod", o.pod, "container", o.name, "cpus", r.CPUs, "kept_by", r.Mode, "balancing", r.Balancing(),
				"tick", r.Tick, "rcu", r.RCU, "managed_irq", r.ManagedIRQ)
		}
	}
	l.status.noise = now
	if args := l.settings.bootArguments(l.boot, owned); len(now) > 0 && !slices.Equal(args, l.status.bootArgs) {
		l.status.bootArgs = args
		l.log.Info("kernel arguments that exclusive CPUs lack", "arguments", strings.Join(args, " "))
	}
}
