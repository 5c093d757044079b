package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/pkg/defrag"
)

func printDefrag(w *layout.Writer, r defragReport, apply bool) {
	printOwners(w, r.Owners)
	printRoom(w, r.Room)
	for _, u := range r.Unread {
		fmt.Fprintln(w, "\nnot read: "+layout.Printable(u))
	}
	if r.Bounded {
		fmt.Fprintln(w, "\nThe search was ended before everything was tried; after these moves there may be more.")
	}
	printMoves(w, r, apply)
}

// printOwners prints where each owner is, and in brackets how it could be.
func printOwners(w *layout.Writer, owners []defrag.Place) {
	if len(owners) == 0 {
		fmt.Fprintln(w, "No container and no unit has exclusive CPUs.")
		return
	}
	out := layout.NewTable("OWNER", "CPUS", "SPLIT CORES", "SHARED", "L3 GROUPS", "NODES", "PACKAGES", "REMOTE CPUS", "STAYS")
	above := false
	cell := func(now, least int) string {
		if now <= least {
			return strconv.Itoa(now)
		}
		above = true
		return fmt.Sprintf("%d (%d)", now, least)
	}
	for _, o := range owners {
		out.Row(o.Full(), o.CPUs.String(),
			cell(o.Now.SplitCores, o.Least.SplitCores), cell(o.Now.SharedCores, o.Least.SharedCores),
			cell(o.Now.L3Groups, o.Least.L3Groups), cell(o.Now.Nodes, o.Least.Nodes),
			cell(o.Now.Packages, o.Least.Packages), cell(o.Now.RemoteCPUs, o.Least.RemoteCPUs), o.Fixed)
	}
	w.Table(out)
	if above {
		fmt.Fprintln(w, "(In brackets: the value if the owner were alone in the pool.)")
	}
}

// printRoom prints what new owners can have.
func printRoom(w *layout.Writer, room defrag.Change[defrag.Room]) {
	fmt.Fprintln(w)
	out := layout.NewTable("ROOM", "FREE CPUS", "IN ONE L3 GROUP", "IN WHOLE CORES")
	for i, now := range room.Now.Nodes {
		after := room.After.Nodes[i]
		out.Row("node "+strconv.Itoa(now.Node), change(now.Free, after.Free), change(now.InL3, after.InL3), change(now.InWholeCores, after.InWholeCores))
	}
	out.Row("largest on one node", change(room.Now.OnNode, room.After.OnNode), change(room.Now.InL3, room.After.InL3),
		change(room.Now.InWholeCores, room.After.InWholeCores))
	w.Table(out)
}

func change(now, after int) string {
	if now == after {
		return strconv.Itoa(now)
	}
	return fmt.Sprintf("%d → %d", now, after)
}

func printMoves(w *layout.Writer, r defragReport, apply bool) {
	head := "\nNothing to move."
	switch {
	case len(r.Moves) == 0 && r.Excess.Now != defrag.Shape{}:
		head = "\nNothing to move: the free CPUs do not allow the values in brackets."
	case len(r.Moves) > 0 && apply:
		head = fmt.Sprintf("\n%s:", layout.Count(len(r.Moves), "move"))
	case len(r.Moves) > 0:
		head = fmt.Sprintf("\n%s, in this order; --apply has the daemon make them:", layout.Count(len(r.Moves), "move"))
	}
	fmt.Fprintln(w, head)
	out := &layout.Table{}
	for i, m := range r.Moves {
		out.Row(strconv.Itoa(i+1), m.Full(), m.From.String()+" → "+m.To.String(), why(m, r.bound))
	}
	w.Table(out)
}

// why returns the gain and the cost of a move.
func why(m defrag.Move, bound bool) string {
	var parts []string
	for _, x := range []struct {
		what      string
		now, then int
	}{
		{"remote CPUs", m.Now.RemoteCPUs, m.Then.RemoteCPUs},
		{"split cores", m.Now.SplitCores, m.Then.SplitCores},
		{"nodes", m.Now.Nodes, m.Then.Nodes},
		{"packages", m.Now.Packages, m.Then.Packages},
		{"L3 groups", m.Now.L3Groups, m.Then.L3Groups},
	} {
		if x.now != x.then {
			parts = append(parts, fmt.Sprintf("%s %d → %d", x.what, x.now, x.then))
		}
	}
	switch {
	case m.MakesRoom:
		parts = append(parts, "makes room for the next move")
	case len(parts) == 0:
		parts = append(parts, "nearer to what its options wish for")
	}
	if !m.FromNodes.Equal(m.ToNodes) {
		memory := "its memory stays where it is"
		if bound {
			memory = "the kernel migrates its memory (guaranteed.memory: bind)"
		}
		parts = append(parts, fmt.Sprintf("NUMA nodes %s → %s: %s", m.FromNodes, m.ToNodes, memory))
	}
	return strings.Join(parts, "; ")
}
