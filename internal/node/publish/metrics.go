package publish

import (
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/planning"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func (p *Publisher) view(pass *planning.Pass) *telemetry.View {
	node := p.node(pass)
	v := &telemetry.View{
		Problems:    make(map[string]int),
		Faulty:      len(p.faults),
		Pools:       node.PoolMetrics(p.Kubelet.CPUs()),
		Room:        p.capacity.Room(node, func() []pools.Pod { return p.Objects.Input(p.Now()) }),
		Claims:      node.Claims(),
		Ready:       p.ready,
		LastSuccess: p.lastSuccess,
		ConfigStale: p.States.ConfigErr() != nil,
		Adapted:     p.Settings.Adapted,
		Offline:     p.Settings.Offline(),
		Gathered:    p.Cache.Threads.Moved(),
		Stuck:       p.Cache.Threads.CountStranded(),
		Placements:  p.Exposures.Placements(),
		Refused:     p.Refusals.Totals(),
		RefusedNow:  p.Refusals.Now(),
		Shortened:   p.Requests.ShortenedWaits(),
		Replies:     p.Requests.ReplyTimes(),
		Sources:     p.sources(),
		HostUnits:   p.Units.HostView(),
		Partitions:  p.Partitions.Counts(),
		Leaked:      p.Partitions.Lost(),
		Parked:      p.Partitions.Parked(),
		Quiet:       p.Quiet.Counts(),
		Observed:    p.unwrittenCounts(),
		Settings:    p.tuning.View(),
		Drifted:     p.Drifts.Figures(),
		Open:        p.unrepairedDrifts(pass),
	}
	p.counts.Report(v)
	problems := p.problems
	if !pass.Planned { // Note was not called
		problems = p.Problems(pass)
	}
	for _, problem := range problems {
		v.Problems[string(problem.Code)]++
	}
	v.Containers, v.Mixed = node.Containers(p.paths, func(cpus cpuset.Set, at cgroup.Path) (noise.Report, map[string]int) {
		r := p.machine().Of(cpus, p.Partitions.Mode(at))
		work := map[string]int{"balancing": r.Balanced.Len(), "tick": r.Tick.Len()} // CPUs on which the kernel itself runs work
		if !p.Host.Boot.Unknown {
			work["rcu"], work["managed_irq"] = r.RCU.Len(), r.ManagedIRQ.Len()
		}
		return r, work
	})
	return v
}

func (p *Publisher) sources() map[telemetry.Source]telemetry.SourceState {
	all := p.States.View(p.Host, len(p.Settings.UnitNames()) > 0)
	all[telemetry.Inotify] = p.Watch.State()
	if state, written := p.Files.State(p.Now()); written {
		all[telemetry.ApplicationFiles] = state
	}
	if state, asked := p.Permission.State(); asked {
		all[telemetry.Namespaces] = state
	}
	if state := p.Hints.State(); state != "" {
		all[telemetry.PodResources] = state
	}
	return all
}

// unrepairedDrifts returns the number of unrepaired drifts. It omits the cpusets of cgroups that
// are confined in a write conflict.
func (p *Publisher) unrepairedDrifts(pass *planning.Pass) int {
	n := 0
	for at, properties := range p.Drifts.Unrepaired() {
		for _, property := range properties {
			if property != cgroup.FileCPUs || !p.Backoffs.Confines(at, p.Cache.RunsOutside(pass.Targets), p.Now()) {
				n++
			}
		}
	}
	return n
}
