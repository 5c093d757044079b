package topology

import (
	"fmt"

	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// readCores joins the threads of a core by their sibling lists. core_id is unique in a die
// only. If the lists of two CPUs disagree, their threads count as one core: two owners on
// one core would be the worse error.
func (r *scan) readCores() error {
	siblings := make([]cpuset.Set, len(r.places))
	for i := range r.places {
		p := &r.places[i]
		const name = "topology/core_cpus_list"
		set, err := r.siblings(p.ID, name, "topology/thread_siblings_list")
		if err != nil {
			return err
		}
		if set.IsEmpty() {
			return missing(p.ID, cpuFile(p.ID, name))
		}
		if siblings[i] = r.running(set); !siblings[i].Contains(p.ID) {
			return fmt.Errorf("CPU %d is not among its own thread siblings %s", p.ID, set)
		}
		p.Core = p.ID
	}
	var disagree cpuset.Set
	for i, of := range siblings {
		for id := range of.All() {
			j := r.index(id)
			if !siblings[j].Equal(of) {
				disagree = disagree.Union(of).Union(siblings[j])
			}
			if a, b := r.core(r.places[i].ID), r.core(id); a != b {
				r.places[r.index(max(a, b))].Core = min(a, b)
			}
		}
	}
	for i := range r.places {
		r.places[i].Core = r.core(r.places[i].ID)
	}
	if !disagree.IsEmpty() {
		r.warn("the kernel's lists of thread siblings of CPUs %s disagree: CPUs that a list joins count as one core. In a virtual machine, correct its CPU topology", disagree)
	}
	return nil
}

// core returns the lowest CPU of the core of a CPU, among the threads that are joined so far.
func (r *scan) core(id int) int {
	for {
		of := r.places[r.index(id)].Core
		if of == id {
			return id
		}
		id = of
	}
}

// siblings reads a list of CPUs under the name that kernels from 5.3 on have for the file, else
// under the former name. It returns the empty set if the kernel has neither.
func (s *sysfs) siblings(id int, name, former string) (cpuset.Set, error) {
	set, ok, err := optional(s.list(cpuFile(id, name)))
	if !ok && err == nil {
		set, _, err = optional(s.list(cpuFile(id, former)))
	}
	return set, err
}

// readPackages reads physical_package_id and die_id. Architectures without dies (arm64) have
// no die_id. On s390x, the number of a package is unique in its book only, or it is -1 for all
// packages: package_cpus_list distinguishes them. Only the lowest CPU of a core is read, because
// the threads of a core are in one die and package. On x86 and arm64 the kernel requires it:
// match_smt in arch/x86/kernel/smpboot.c, update_siblings_masks in drivers/base/arch_topology.c.
func (r *scan) readPackages() error {
	unnumbered := make(map[int]int) // numbers of packages by their lowest CPU
	_, books, err := optional(r.number(cpuFile(r.places[0].ID, "topology/book_id")))
	if err != nil {
		return err
	}
	for i := range r.places {
		p := &r.places[i]
		if p.Core != p.ID {
			first := r.places[r.index(p.Core)]
			p.Package, p.Die = first.Package, first.Die
			continue
		}
		name := cpuFile(p.ID, "topology/physical_package_id")
		pkg, ok, err := optional(r.number(name))
		if err != nil {
			return err
		}
		if !ok {
			return missing(p.ID, name)
		}
		if p.Package = pkg; pkg < 0 || books {
			cpus, err := r.siblings(p.ID, "topology/package_cpus_list", "topology/core_siblings_list")
			if err != nil {
				return err
			}
			if first := cpus.Intersection(r.online).First(); cpus.Contains(p.ID) {
				if _, known := unnumbered[first]; !known {
					unnumbered[first] = len(unnumbered)
				}
				p.Package = unnumbered[first]
			}
		}
		if p.Die, ok, err = optional(r.number(cpuFile(p.ID, "topology/die_id"))); err != nil {
			return err
		}
		if !ok {
			p.Die = -1
		}
	}
	return nil
}

func missing(id int, name string) error {
	return fmt.Errorf("CPU %d is online but has no %s: is this the host's /sys?", id, name)
}
