// Package account holds the decisions of package schedwatch. It decides which entries of the kernel's
// table of owners change at a handover, and to which watch a report belongs. It computes the counts of
// a CPU that users see, and the cause of a denied system call. It is pure.
package account

import (
	"cmp"
	"slices"
)

// Entry is an entry of the kernel's table: a cgroup owns a CPU.
type Entry struct {
	CPU    int
	Cgroup uint64
}

func (e Entry) compare(f Entry) int {
	return cmp.Or(cmp.Compare(e.CPU, f.CPU), cmp.Compare(e.Cgroup, f.Cgroup))
}

// Owners holds the entries of a table.
type Owners map[Entry]bool

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
	ends, owned := make(map[int]bool), make(map[int]bool)
	for e := range present {
		if wanted[e] {
			continue
		}
		c.Remove = append(c.Remove, e)
		if !ends[e.CPU] && isWatched(e.CPU) {
			c.Stop = append(c.Stop, e.CPU)
		}
		ends[e.CPU] = true
	}
	for e := range wanted {
		if !present[e] {
			c.Add = append(c.Add, e)
		}
		if !owned[e.CPU] && (!isWatched(e.CPU) || ends[e.CPU]) {
			c.Start = append(c.Start, e.CPU)
		}
		owned[e.CPU] = true
	}
	slices.Sort(c.Stop)
	slices.SortFunc(c.Remove, Entry.compare)
	slices.SortFunc(c.Add, Entry.compare)
	slices.Sort(c.Start)
	return c
}
