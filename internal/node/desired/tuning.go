package desired

import (
	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/internal/node/tune"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

// TuneMachine returns the machine for package tune.
func (s *Settings) TuneMachine(possible cpuset.Set) tune.Machine {
	return tune.Machine{Possible: possible, Online: s.Topology.Online}
}

// Ownable returns all CPUs that can become exclusive.
func (s *Settings) Ownable() cpuset.Set {
	if s.Pools.FromShared {
		return s.ownPools().Union(s.Pools.Shared)
	}
	return s.ownPools()
}

// ownPools returns the CPUs of the pools for owners: the guaranteed pool and the list for ResourceClaims.
func (s *Settings) ownPools() cpuset.Set { return s.Pools.Guaranteed.Union(s.Pools.Claims.CPUs) }

// HostSettings returns the host settings that a plan requires. elsewhere contains the
// containers whose interrupts another manager moves, with the manager's name.
func (s *Settings) HostSettings(owners []Owner, m *inventory.Objects, o *OtherManagers) (w tune.Desired, elsewhere map[string]string) {
	elsewhere = make(map[string]string)
	for _, owner := range owners {
		if s.Config.KernelThreads == config.KernelThreadsExclusive {
			w.NoKernel = w.NoKernel.Union(owner.CPUs)
		}
		if owner.Unit {
			if s.Config.Interrupts.Away == config.AwayExclusive {
				w.Quiet = w.Quiet.Union(owner.CPUs)
			}
			continue
		}
		e := m.Container(owner.ID)
		if e == nil {
			continue
		}
		pod := e.Pod()
		if pod != nil && s.Config.Interrupts.Away != config.AwayOff {
			if by, does := o.crio.MovesInterrupts(ofCRIO(pod, e, true)); does {
				elsewhere[owner.ID] = by
				continue
			}
		}
		quiet, _ := s.quietOf(pod.Annotations(), owner.Name, owner.CPUs)
		w.Quiet = w.Quiet.Union(quiet)
	}
	return w, elsewhere
}

// quietOf returns the exclusive CPUs without interrupts, and the core that handles them.
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

// HousekeepingOf returns the exclusive CPUs that handle interrupts if the others handle none.
func (s *Settings) HousekeepingOf(annotations map[string]string, container string, cpus cpuset.Set) cpuset.Set {
	if cpus.IsEmpty() {
		return cpuset.Set{}
	}
	_, housekeeping := s.quietOf(annotations, container, cpus)
	return housekeeping
}

// MachineOf returns the machine with the boot parameters of its kernel.
func (s *Settings) MachineOf(b noise.BootFacts) noise.Machine {
	return noise.Machine{Boot: b.Boot, Isolated: s.Topology.Isolated, NohzFull: s.Topology.NohzFull}
}

// BootArguments returns the kernel arguments that exclusive CPUs lack. A list of guaranteed CPUs or of CPUs for
// ResourceClaims counts as a whole. CPUs from the shared pool count only while they have an owner.
func (s *Settings) BootArguments(b noise.BootFacts, owned cpuset.Set) []string {
	if b.Unknown {
		return nil
	}
	owned = owned.Union(s.Pools.Claims.CPUs)
	if !s.Pools.FromShared {
		owned = owned.Union(s.Pools.Guaranteed)
	}
	if owned.IsEmpty() {
		return nil
	}
	return s.MachineOf(b).Arguments(owned)
}
