package topology

import (
	"fmt"
	"path"
)

// maxCapacity is the cpu_capacity of the fastest CPU of a machine
// (include/linux/sched.h SCHED_CAPACITY_SCALE).
const maxCapacity = 1024

// kinds sets Capacity and Kind. On Intel the performance counters say which CPU
// is which; elsewhere capacity tells, and where the kernel has none, the highest
// frequency.
func (s sysfs) kinds(t *Topology) error {
	for i, cpu := range t.CPUs {
		name := cpuFile(cpu.ID, "cpu_capacity")
		capacity, _, err := optional(s.number(name))
		if err != nil {
			return err
		}
		if capacity < 0 || capacity > maxCapacity {
			return fmt.Errorf("read %s: %d is outside 0-%d", name, capacity, maxCapacity)
		}
		t.CPUs[i].Capacity = capacity
	}
	if known, err := s.kindsByCounters(t); known || err != nil {
		return err
	}
	speeds := make([]int, len(t.CPUs))
	for i, cpu := range t.CPUs {
		speeds[i] = cpu.Capacity
	}
	if t.kindsBySpeed(speeds) {
		return nil
	}
	for i, cpu := range t.CPUs {
		kHz, ok, err := optional(s.number(cpuFile(cpu.ID, "cpufreq/cpuinfo_max_freq")))
		if err != nil {
			return err
		}
		if !ok {
			return nil
		}
		speeds[i] = kHz
	}
	t.kindsBySpeed(speeds)
	return nil
}

// kindsByCounters reads which CPUs the counters of each kind of core are for. The
// files exist on hybrid Intel machines only.
func (s sysfs) kindsByCounters(t *Topology) (known bool, _ error) {
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
		for id := range set.Intersection(t.Online).All() {
			t.CPUs[t.index(id)].Kind = pmu.kind
		}
	}
	return known, nil
}

// kindsBySpeed calls the CPUs that reach at least 80 % of the fastest one
// Performance and the others Efficiency. Equal cores differ by less: some of them
// are selected for a few hundred MHz more. It returns false, and sets nothing, when
// all CPUs are of one kind or the speeds are not known.
func (t *Topology) kindsBySpeed(speeds []int) bool {
	fastest, slowest := speeds[0], speeds[0]
	for _, speed := range speeds {
		fastest, slowest = max(fastest, speed), min(slowest, speed)
	}
	fast := func(speed int) bool { return int64(speed)*5 >= int64(fastest)*4 }
	if slowest <= 0 || fast(slowest) {
		return false
	}
	for i, speed := range speeds {
		t.CPUs[i].Kind = Efficiency
		if fast(speed) {
			t.CPUs[i].Kind = Performance
		}
	}
	return true
}
