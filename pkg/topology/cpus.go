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
		set, err := r.siblings(p.ID)
		if err != nil {
			return err
		}
		if siblings[i] = set.Intersection(r.online); !siblings[i].Contains(p.ID) {
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

// core returns the lowest CPU of the core of a CPU, as far as its threads are joined.
func (r *scan) core(id int) int {
	for {
		of := r.places[r.index(id)].Core
		if of == id {
			return id
		}
		id = of
	}
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

// readPackages reads physical_package_id and die_id. Architectures without dies (arm64) have
// no die_id. On s390x, the number of a package is unique in its book only, or it is -1 for all
// packages: package_cpus_list distinguishes them.
func (r *scan) readPackages() error {
	unnumbered := make(map[int]int) // numbers of packages by their lowest CPU
	_, books, err := optional(r.number(cpuFile(r.places[0].ID, "topology/book_id")))
	if err != nil {
		return err
	}
	for i := range r.places {
		p := &r.places[i]
		name := cpuFile(p.ID, "topology/physical_package_id")
		pkg, ok, err := optional(r.number(name))
		if err != nil {
			return err
		}
		if !ok {
			return missing(p.ID, name)
		}
		if p.Package = pkg; pkg < 0 || books {
			cpus, err := r.packageCPUs(p.ID)
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

// packageCPUs reads the CPUs of a package under both names of the file. It returns the empty
// set if the kernel has neither.
func (s sysfs) packageCPUs(id int) (cpuset.Set, error) {
	set, ok, err := optional(s.list(cpuFile(id, "topology/package_cpus_list")))
	if ok || err != nil {
		return set, err
	}
	set, _, err = optional(s.list(cpuFile(id, "topology/core_siblings_list")))
	return set, err
}

func missing(id int, name string) error {
	return fmt.Errorf("CPU %d is online but has no %s: is this the host's /sys?", id, name)
}
