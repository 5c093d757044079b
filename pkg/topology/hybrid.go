package topology

import (
	"fmt"
	"path"
)

// maxCapacity is the cpu_capacity of the fastest CPU of a machine
// (include/linux/sched.h SCHED_CAPACITY_SCALE).
const maxCapacity = 1024

// readCapacities reads cpu_capacity, which most kernels for x86 do not have. A kernel has it for
// all online CPUs or for none (drivers/base/arch_topology.c).
func (r *scan) readCapacities() error {
	for i := range r.places {
		name := cpuFile(r.places[i].ID, "cpu_capacity")
		capacity, ok, err := optional(r.number(name))
		if !ok {
			return err
		}
		if capacity < 0 || capacity > maxCapacity {
			return fmt.Errorf("read %s: %d is outside 0-%d", name, capacity, maxCapacity)
		}
		r.places[i].Capacity = capacity
	}
	return nil
}

// kinds sets the kinds of CPUs. On Intel, the performance counters show them. Otherwise
// capacities decide, from which [Assemble] has set the kinds, and without capacities the
// highest frequencies.
func (s *sysfs) kinds(t *Topology) error {
	if known, err := s.kindsByCounters(t); known || err != nil {
		return err
	}
	if t.CPUs[0].Kind != Unknown {
		return nil
	}
	speeds := make([]int, len(t.Cores)) // the threads of a core have one speed
	for i, core := range t.Cores {
		kHz, ok, err := optional(s.number(cpuFile(core.CPUs.First(), "cpufreq/cpuinfo_max_freq")))
		if !ok {
			return err
		}
		speeds[i] = kHz
	}
	t.kindsBySpeed(func(c CPU) int { return speeds[c.Core] })
	return nil
}

// kindsByCounters reads which CPUs the counters of each kind of core are for. The
// files exist on hybrid Intel machines only.
func (s *sysfs) kindsByCounters(t *Topology) (known bool, _ error) {
	for _, pmu := range []struct {
		name string
		kind CoreKind
	}{
		{"cpu_core", Performance},
		{"cpu_atom", Efficiency},
		{"cpu_lowpower", Efficiency},
	} {
		set, ok, err := optional(s.list(path.Join("devices", pmu.name, "cpus")))
		if err != nil {
			return false, err
		}
		known = known || ok
		for i := range t.CPUs {
			if set.Contains(t.CPUs[i].ID) {
				t.CPUs[i].Kind = pmu.kind
			}
		}
	}
	return known, nil
}

// kindsBySpeed sets the kind of CPUs that reach at least 80 % of the speed of the fastest CPU
// to Performance, and the kind of the others to Efficiency. Equal cores differ by less: the
// maker selects some of them for a few hundred MHz more. It sets nothing if all CPUs are of
// one kind, or if the speed of a CPU is not known.
func (t *Topology) kindsBySpeed(speed func(CPU) int) {
	fastest, slowest := speed(t.CPUs[0]), speed(t.CPUs[0])
	for _, cpu := range t.CPUs {
		fastest, slowest = max(fastest, speed(cpu)), min(slowest, speed(cpu))
	}
	fast := func(speed int) bool { return int64(speed)*5 >= int64(fastest)*4 }
	if slowest <= 0 || fast(slowest) {
		return
	}
	for i := range t.CPUs {
		if t.CPUs[i].Kind = Efficiency; fast(speed(t.CPUs[i])) {
			t.CPUs[i].Kind = Performance
		}
	}
}

// CoreKind is the kind of a core of a hybrid machine.
type CoreKind int

const (
	// Unknown is the kind of every CPU of a machine that is not hybrid, or without this information.
	Unknown CoreKind = iota
	// Performance is a fast core: Intel P-core, the largest cores of Arm.
	Performance
	// Efficiency is any smaller core.
	Efficiency
)

// String returns "unknown", "performance" or "efficiency".
func (k CoreKind) String() string {
	switch k {
	case Performance:
		return "performance"
	case Efficiency:
		return "efficiency"
	default:
		return "unknown"
	}
}

// MarshalText returns the result of String. It never fails.
func (k CoreKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (k *CoreKind) UnmarshalText(text []byte) error {
	for _, kind := range []CoreKind{Unknown, Performance, Efficiency} {
		if kind.String() == string(text) {
			*k = kind
			return nil
		}
	}
	return fmt.Errorf("parse core kind %q: not one of unknown, performance, efficiency", text)
}
