package daemon

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/hosttuning"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/power"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// newTuner returns the tuner of the host's settings.
func (l *Loop) newTuner(log *slog.Logger) (*tune.Tuner, error) {
	sources, undo, host, err := hosttuning.Sources(l.settings.Config, l.settings.TuneMachine(l.Possible))
	if err != nil {
		return nil, err
	}
	l.tuning.power = host
	return tune.New(tune.Options{
		Sources: sources, Undo: undo, Observe: l.Observes, Log: log,
		Changed: func() { l.box.Post(tuned{}) },
	}), nil
}

// tuned is the event that the tuner has read or changed the host's settings.
type tuned struct{}

func (tuned) scope(*Loop) scope { return scopeAll }

func (tuned) apply(*Loop) {}

// tuneHost hands the desired settings of the host to the tuner.
func (l *Loop) tuneHost() {
	if l.tuner == nil {
		return
	}
	w, elsewhere := l.settings.Wish(l.status.plan, l.inventory, &l.others)
	for id, by := range elsewhere {
		if l.tuning.elsewhere[id] == "" {
			l.log.Info("interrupts of a container are left to another manager; default_smp_affinity is its own", "container_id", id, "manager", by)
		}
	}
	l.tuning.elsewhere = elsewhere
	w.Values, l.tuning.powerless = l.settings.PowerWish(l.status.plan, l.inventory, &l.others, l.tuning.power.Machine())
	l.tuner.Set(w, l.settings.TuneMachine(l.Possible), l.settings.Ownable())
}

// tuning is the loop's state of the host's settings.
type tuning struct {
	elsewhere map[string]string // by container: the manager that moves its interrupts, as logged
	power     *power.Host
	powerless []pools.Problem // requests for power settings that the machine does not have
}

// tuneProblems returns the problems with the host's settings.
func (l *Loop) tuneProblems() []pools.Problem {
	if l.tuner == nil {
		return nil
	}
	all := slices.Clone(l.tuning.powerless)
	for _, p := range l.tuner.View().Problems {
		all = append(all, pools.Problem{Reason: pools.Reason{Code: pools.Code(p.Code), Text: p.Text}})
	}
	return all
}

// tuneView returns the host's settings for metrics.
func (l *Loop) tuneView() *telemetry.HostSettings {
	if l.tuner == nil {
		return nil
	}
	v := l.tuner.View()
	shown := &telemetry.HostSettings{
		Quiet: v.Wish.Quiet, NoKernel: v.Wish.NoKernel, Pending: len(v.Pending),
		Moved: make(map[string]int), Stuck: make(map[telemetry.StuckSetting]int), Writes: make(map[telemetry.SettingWrite]uint64),
	}
	for kind, n := range v.Moved {
		shown.Moved[string(kind)] = n
	}
	for _, s := range v.Stuck {
		shown.Stuck[telemetry.StuckSetting{Kind: string(s.Kind), Reason: string(s.Why)}]++
	}
	for c, n := range v.Writes {
		result := telemetry.OK
		if c.Failed {
			result = telemetry.Failed
		}
		shown.Writes[telemetry.SettingWrite{Kind: string(c.Kind), Result: result}] += n
	}
	return shown
}

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
		if l.partitionPending(cgroup.Target{Path: p, Exclusive: true}) {
			if was, told := l.status.noise[o.ID]; told {
				now[o.ID] = was
			}
			continue
		}
		r := l.machine().Of(o.CPUs, l.isolation.mode(p))
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
