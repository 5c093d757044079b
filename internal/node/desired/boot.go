package desired

import (
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/noise"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// MachineOf returns the machine with the boot parameters of its kernel.
func (s *Settings) MachineOf(b hostenv.BootFacts) noise.Machine {
	return noise.Machine{Boot: b.Boot, Isolated: s.Topology.Isolated, NohzFull: s.Topology.NohzFull}
}

// BootArguments returns the kernel arguments that exclusive CPUs lack. A list of guaranteed
// CPUs counts as a whole. CPUs from the shared pool count only while they have an owner.
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
