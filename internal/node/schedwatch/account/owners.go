// Package account holds the decisions of package schedwatch. It decides which entries of the kernel's
// table of owners change at a handover, and to which watch a report belongs. It computes the counts of
// a CPU that users see, and the cause of a denied system call. It is pure.
package account

import (
	"maps"
	"slices"
)

// Owners holds the ids of the owners' cgroups by CPU. The ids are sorted and unique.
type Owners map[int][]uint64

// Add adds a cgroup to the owners of a CPU.
func (o Owners) Add(cpu int, cgroup uint64) {
	if i, found := slices.BinarySearch(o[cpu], cgroup); !found {
		o[cpu] = slices.Insert(o[cpu], i, cgroup)
	}
}

// Remove removes a cgroup from the owners of a CPU.
func (o Owners) Remove(cpu int, cgroup uint64) {
	if i, found := slices.BinarySearch(o[cpu], cgroup); found {
		o[cpu] = slices.Delete(o[cpu], i, i+1)
	}
	if len(o[cpu]) == 0 {
		delete(o, cpu)
	}
}

// Entry is an entry of the kernel's table: a cgroup owns a CPU.
type Entry struct {
	CPU    int
	Cgroup uint64
}

// Change holds the steps from present to wanted owners, in the order of the fields. All are sorted by CPU.
type Change struct {
	Stop   []int // CPUs with a watch that ends before entries are removed
	Remove []Entry
	Add    []Entry
	Start  []int // CPUs with a watch that begins after entries were added
}

// Changes returns the steps that lead from present to wanted owners. isWatched reports whether a
// CPU has a watch at present. An owner that gets another cgroup keeps its watch, because an entry
// more makes no task foreign. If an entry goes, the watch begins again: a slice in progress was
// the owner's.
func Changes(present, wanted Owners, isWatched func(cpu int) bool) Change {
	var c Change
	cpus := slices.Collect(maps.Keys(present))
	for cpu := range wanted {
		if _, found := present[cpu]; !found {
			cpus = append(cpus, cpu)
		}
	}
	slices.Sort(cpus)
	for _, cpu := range cpus {
		watched, removed := isWatched(cpu), len(c.Remove)
		for _, id := range present[cpu] {
			if _, found := slices.BinarySearch(wanted[cpu], id); !found {
				c.Remove = append(c.Remove, Entry{cpu, id})
			}
		}
		for _, id := range wanted[cpu] {
			if _, found := slices.BinarySearch(present[cpu], id); !found {
				c.Add = append(c.Add, Entry{cpu, id})
			}
		}
		ends := len(c.Remove) > removed || len(wanted[cpu]) == 0
		if watched && ends {
			c.Stop = append(c.Stop, cpu)
		}
		if len(wanted[cpu]) > 0 && (!watched || ends) {
			c.Start = append(c.Start, cpu)
		}
	}
	return c
}
