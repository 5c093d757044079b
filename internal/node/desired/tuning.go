package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/managers"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TuneMachine is the machine as package tune needs it.
func (s *Settings) TuneMachine(possible cpuset.Set) tune.Machine {
	return tune.Machine{Possible: possible, Online: s.Topology.Online}
}

// Ownable are all CPUs that somebody could have for himself.
func (s *Settings) Ownable() cpuset.Set {
	if s.Pools.FromShared {
		return s.Pools.Guaranteed.Union(s.Pools.Shared)
	}
	return s.Pools.Guaranteed
}

// Wish is what a plan wishes of the host, and the containers whose interrupts another
// manager moves, with its name.
func (s *Settings) Wish(plan pools.Plan, m *inventory.Inventory, o *OtherManagers) (w tune.Wish, elsewhere map[string]string) {
	elsewhere = make(map[string]string)
	for _, owner := range SoleOwners(plan) {
		if s.Config.KernelThreads == config.KernelThreadsExclusive {
			w.NoKernel = w.NoKernel.Union(owner.Cpus)
		}
		if owner.Unit {
			if s.Config.Interrupts.Away == config.AwayExclusive {
				w.Quiet = w.Quiet.Union(owner.Cpus)
			}
			continue
		}
		e := m.Container(owner.Id)
		if e == nil {
			continue
		}
		quiet, _ := s.quietOf(m.PodOf(e).Annotations(), owner.Name, owner.Cpus)
		if by, does := o.movesInterrupts(m, e); does && s.Config.Interrupts.Away != config.AwayOff {
			elsewhere[owner.Id] = by
			continue
		}
		w.Quiet = w.Quiet.Union(quiet)
	}
	return w, elsewhere
}

// movesInterrupts says whether CRI-O's hooks keep interrupts off a container's CPUs.
func (o *OtherManagers) movesInterrupts(m *inventory.Inventory, e *inventory.Container) (by string, does bool) {
	pod := m.PodOf(e)
	if pod == nil {
		return "", false
	}
	return o.crio.MovesInterrupts(managers.Container{
		Name: e.Container.Name, Annotations: pod.Pod.Annotations, Handler: pod.Pod.RuntimeHandler, WholeCPUs: true,
	})
}

// quietOf splits a container's own CPUs in those that handle no interrupts, and those that
// do although its others do not.
func (s *Settings) quietOf(annotations map[string]string, container string, cpus cpuset.Set) (quiet, housekeeping cpuset.Set) {
	asked, found := s.Names.Interrupts(annotations, container)
	switch s.Config.Interrupts.Away {
	case config.AwayOff:
		return quiet, housekeeping
	case config.AwayExclusive:
		if !found {
			asked = workload.InterruptsAway
		}
	case config.AwayAnnotated:
	}
	switch asked {
	case workload.InterruptsAway:
		return cpus, housekeeping
	case workload.InterruptsHousekeeping:
		first := cpuset.Of(cpus.First())
		for _, core := range s.Topology.Cores {
			if core.CPUs.Overlaps(first) {
				first = core.CPUs.Intersection(cpus)
			}
		}
		return cpus.Difference(first), first
	default:
		return quiet, housekeeping
	}
}

// HousekeepingOf are the CPUs of a container that handle interrupts although its others do
// not.
func (s *Settings) HousekeepingOf(annotations map[string]string, container string, cpus cpuset.Set) cpuset.Set {
	if cpus.IsEmpty() {
		return cpuset.Set{}
	}
	_, housekeeping := s.quietOf(annotations, container, cpus)
	return housekeeping
}
