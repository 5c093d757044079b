package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// MachineOf is what the machine gives, as it has booted.
func (s *Settings) MachineOf(b hostenv.BootFacts) noise.Machine {
	return noise.Machine{Boot: b.Boot, Isolated: s.Topology.Isolated, NohzFull: s.Topology.NohzFull}
}

// BootArguments are those that the machine lacks for who has CPUs of its own: for the
// whole pool where it is a list. What is carved out of the shared pool is known only
// when somebody has it.
func (s *Settings) BootArguments(b hostenv.BootFacts, owned cpuset.Set) []string {
	if b.Unknown {
		return nil
	}
	if !s.Pools.FromShared {
		owned = owned.Union(s.Pools.Guaranteed)
	}
	if owned.IsEmpty() {
		return nil
	}
	return s.MachineOf(b).Arguments(owned)
}

// soleOwner is a container or a unit that has CPUs of its own.
type soleOwner struct {
	Pod, Name, Id string
	Unit          bool
	Cpus          cpuset.Set
}

// SoleOwners are those of a plan that can run now, in its order.
func SoleOwners(plan pools.Plan) []soleOwner {
	var all []soleOwner
	for _, pod := range plan.Pods {
		for _, c := range pod.Containers {
			if c.Exclusive && c.State != pools.Exited {
				all = append(all, soleOwner{Pod: pod.Namespace + "/" + pod.Name, Name: c.Name, Id: c.ID, Cpus: c.CPUs})
			}
		}
	}
	for _, u := range plan.Units {
		if u.Exclusive {
			all = append(all, soleOwner{Name: u.Name, Unit: true, Cpus: u.CPUs})
		}
	}
	return all
}
