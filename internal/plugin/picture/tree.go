package picture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

// Group is a part of the machine that is drawn as a box.
type Group struct {
	// Labels name the parts of the box, the largest first: "package 0", "NUMA node 0". Parts
	// with the same CPUs are one box.
	Labels []string
	CPUs   cpuset.Set
	// Parts are the boxes in it. CPUs in none of them are in Cores.
	Parts []*Group
	// Cores are the CPUs that are directly in the box, by core, threads in order.
	Cores [][]inspect.CPU
}

type part struct {
	label string
	cpus  cpuset.Set
}

// Tree sorts the online CPUs into the parts of the machine. Parts can overlap, such as a
// NUMA node over halves of two packages, and then cannot nest: packages come first, then
// nodes, dies and caches. Offline CPUs have a separate box, because the kernel does not
// report their place.
func Tree(cpus []inspect.CPU) *Group {
	var online, offline []inspect.CPU
	for _, c := range cpus {
		if c.Online {
			online = append(online, c)
		} else {
			offline = append(offline, c)
		}
	}
	root := &Group{CPUs: idsOf(online)}
	root.fill(online, partsOf(online))
	if len(offline) > 0 {
		off := &Group{Labels: []string{"offline"}, CPUs: idsOf(offline)}
		for _, c := range offline {
			off.Cores = append(off.Cores, []inspect.CPU{c})
		}
		if len(root.Cores) > 0 || len(root.Labels) > 0 { // it is one box itself
			root = &Group{Parts: []*Group{root}, CPUs: root.CPUs}
		}
		root.Parts = append(root.Parts, off)
		root.CPUs = root.CPUs.Union(off.CPUs)
	}
	return root
}

// partsOf are the parts of the machine, by kind in the order in which they count, and
// by their first CPU.
func partsOf(cpus []inspect.CPU) (all []part) {
	for _, kind := range []struct {
		label func(inspect.CPU) string
		shown bool // also when everything is one of them
	}{
		{func(c inspect.CPU) string { return fmt.Sprintf("package %d", c.Package) }, true},
		{func(c inspect.CPU) string { return fmt.Sprintf("NUMA node %d", c.Node) }, true},
		// The kernel counts dies in each package.
		{func(c inspect.CPU) string { return fmt.Sprintf("die %d", c.Die) }, false},
		{func(c inspect.CPU) string { return fmt.Sprintf("L3 of CPU %d", c.L3) }, true},
	} {
		var found []part
		index := make(map[string]int)
		for _, c := range cpus {
			label := kind.label(c)
			key := label
			if strings.HasPrefix(label, "die") {
				key = fmt.Sprintf("%d/%s", c.Package, label)
			}
			i, known := index[key]
			if !known {
				i = len(found)
				index[key] = i
				found = append(found, part{label: label})
			}
			found[i].cpus = found[i].cpus.Union(cpuset.Of(c.ID))
		}
		if !kind.shown {
			found = slices.DeleteFunc(found, func(p part) bool { return onlyDie(p, all) })
		}
		all = append(all, found...)
	}
	return all
}

// onlyDie reports whether a die has all CPUs of its package; its box would show nothing new.
func onlyDie(die part, larger []part) bool {
	return slices.ContainsFunc(larger, func(p part) bool { return strings.HasPrefix(p.label, "package") && p.cpus.Equal(die.cpus) })
}

// fill sorts CPUs into the group. Parts with all its CPUs become its labels. The largest
// other parts become its boxes, and the cores outside them its cores.
func (g *Group) fill(cpus []inspect.CPU, parts []part) {
	var inner []part
	for _, p := range parts {
		switch {
		case p.cpus.Equal(g.CPUs):
			g.Labels = append(g.Labels, p.label)
		case p.cpus.IsSubsetOf(g.CPUs):
			inner = append(inner, p)
		}
	}
	var taken cpuset.Set
	for _, p := range inner {
		if p.cpus.Overlaps(taken) || slices.ContainsFunc(inner, func(o part) bool {
			return o.cpus.Len() > p.cpus.Len() && p.cpus.IsSubsetOf(o.cpus) && !o.cpus.Overlaps(taken)
		}) {
			continue
		}
		taken = taken.Union(p.cpus)
		sub := &Group{CPUs: p.cpus}
		sub.fill(cpus, inner)
		g.Parts = append(g.Parts, sub)
	}
	slices.SortFunc(g.Parts, func(a, b *Group) int { return a.CPUs.First() - b.CPUs.First() })
	g.Cores = coresOf(cpus, g.CPUs.Difference(taken))
}

// coresOf are the CPUs of a set by core, in the order of their first threads.
func coresOf(cpus []inspect.CPU, in cpuset.Set) (cores [][]inspect.CPU) {
	index := make(map[int]int)
	for _, c := range cpus {
		if !in.Contains(c.ID) {
			continue
		}
		i, known := index[c.Core]
		if !known {
			i = len(cores)
			index[c.Core] = i
			cores = append(cores, nil)
		}
		cores[i] = append(cores[i], c)
	}
	return cores
}

func idsOf(cpus []inspect.CPU) cpuset.Set {
	ids := make([]int, len(cpus))
	for i, c := range cpus {
		ids[i] = c.ID
	}
	return cpuset.Of(ids...)
}
