package topology

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// cores groups the threads by their sibling lists. core_id is of no use: it is
// unique within a die only.
func (s sysfs) cores(t *Topology) error {
	siblings := make([]cpuset.Set, len(t.CPUs))
	for i, cpu := range t.CPUs {
		set, err := s.siblings(cpu.ID)
		if err != nil {
			return err
		}
		if siblings[i] = set.Intersection(t.Online); !siblings[i].Contains(cpu.ID) {
			return fmt.Errorf("CPU %d is not among its own thread siblings %s", cpu.ID, set)
		}
	}
	g := newGrouping[int]()
	for i, cpu := range t.CPUs {
		first := siblings[i].First()
		if of := siblings[t.index(first)]; !of.Equal(siblings[i]) {
			return fmt.Errorf("CPUs %d and %d disagree about their thread siblings: %s and %s", first, cpu.ID, of, siblings[i])
		}
		t.CPUs[i].Core = g.add(cpu.ID, first, first)
	}
	t.Cores = g.groups()
	return nil
}

// siblings reads the threads of a core under the name that kernels from 5.3 on
// have for the file, else under the one they had before.
func (s sysfs) siblings(id int) (cpuset.Set, error) {
	name := cpuFile(id, "topology/core_cpus_list")
	set, ok, err := optional(s.list(name))
	if ok || err != nil {
		return set, err
	}
	set, ok, err = optional(s.list(cpuFile(id, "topology/thread_siblings_list")))
	if !ok && err == nil {
		err = missing(id, name)
	}
	return set, err
}

// packages groups by physical_package_id, and within packages by die_id, which
// architectures without dies (arm64) do not have.
func (s sysfs) packages(t *Topology) error {
	type dieKey struct{ pkg, die int }
	packages, dies := newGrouping[int](), newGrouping[dieKey]()
	for i, cpu := range t.CPUs {
		name := cpuFile(cpu.ID, "topology/physical_package_id")
		pkg, ok, err := optional(s.number(name))
		if err != nil {
			return err
		}
		if !ok {
			return missing(cpu.ID, name)
		}
		die, ok, err := optional(s.number(cpuFile(cpu.ID, "topology/die_id")))
		if err != nil {
			return err
		}
		if !ok {
			die = -1
		}
		t.CPUs[i].Package = packages.add(cpu.ID, pkg, pkg)
		t.CPUs[i].Die = dies.add(cpu.ID, dieKey{pkg, die}, die)
	}
	t.Packages, t.Dies = packages.groups(), dies.groups()
	return nil
}

func missing(id int, name string) error {
	return fmt.Errorf("CPU %d is online but has no %s: is this the host's /sys?", id, name)
}
