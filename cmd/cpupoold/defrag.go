package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// doDefrag is plan --defrag.
func (a *app) doDefrag(ctx context.Context, c *config.Config, t *topology.Topology, output format, apply bool) error {
	client := control.NewClient(control.Socket(c.RunDir))
	if apply {
		// Without a daemon, no move can be made, so a report would be useless.
		if err := client.Reach(ctx); err != nil {
			return err
		}
	}
	stop := a.announce("cpupoold: waiting for the container runtime, systemd or the kubelet")
	defer stop()
	h, closeHost, err := hostenv.Open(ctx, c, t)
	if err != nil {
		return err
	}
	defer closeHost()
	owners, unread, err := preview.Exclusive(ctx, &h, c, t, a.logger(c))
	if err != nil {
		return err
	}
	stop()
	r := defragReport{Report: defrag.Analyse(owners), Unread: unread, bound: c.Pools.Guaranteed.BindMemory}
	if !apply {
		client = nil
	}
	if output == asJSON {
		return a.defragJSON(ctx, r, client)
	}
	return a.defragTable(ctx, r, client)
}

// defragJSON prints the report when the moves have been made, if there is a client
// to ask for them.
func (a *app) defragJSON(ctx context.Context, r defragReport, client *control.Client) error {
	var failed error
	if client != nil {
		r.Results, failed = applyMoves(ctx, client, r.Moves, func(defrag.Move, control.Result) error { return nil })
	}
	if err := document.Write(a.out, r); err != nil {
		return err
	}
	return cmp.Or(failed, verdict(r.Results))
}

// defragTable prints the report, and then each move when it has been made.
func (a *app) defragTable(ctx context.Context, r defragReport, client *control.Client) error {
	if err := layout.Print(a.out, func(w *layout.Writer) { printDefrag(w, r, client != nil) }); err != nil || client == nil {
		return err
	}
	results, err := applyMoves(ctx, client, r.Moves, a.printResult)
	return cmp.Or(err, verdict(results))
}

type defragReport struct {
	defrag.Report
	// Results holds the results of the moves, with --apply.
	Results []control.Result `json:"results,omitempty"`
	// Unread lists the objects that could not be read.
	Unread []string `json:"unread,omitempty"`

	bound bool // memory follows CPUs
}

// verdict returns the error with the exit code for results of moves.
func verdict(results []control.Result) error {
	if slices.ContainsFunc(results, func(r control.Result) bool { return r.Outcome != control.Done }) {
		return exitCode(exitFindings)
	}
	return nil
}

// applyMoves asks for the moves one by one, and passes each result to tell. It stops at a
// move that is not made, because later moves may depend on it.
func applyMoves(ctx context.Context, client *control.Client, moves []defrag.Move, tell func(defrag.Move, control.Result) error) ([]control.Result, error) {
	var results []control.Result
	for _, m := range moves {
		move := control.Move{PodUID: m.PodUID, Container: m.Container, From: m.From, To: m.To}
		answer := []control.Result{{Move: move, Outcome: control.Skipped, Detail: "a move before it was not done"}}
		if verdict(results) == nil {
			var err error
			if answer, err = client.Move(ctx, []control.Move{move}); err != nil {
				return results, fmt.Errorf("move %s: %w", m.Full(), err)
			}
		}
		results = append(results, answer...)
		if err := tell(m, answer[0]); err != nil {
			return results, err
		}
	}
	return results, nil
}

func (a *app) printResult(m defrag.Move, r control.Result) error {
	line := fmt.Sprintf("%s: %s %s → %s", r.Outcome, m.Full(), m.From, m.To)
	if r.Detail != "" {
		line += ": " + r.Detail
	}
	_, err := fmt.Fprintln(a.out, layout.Printable(line))
	return err
}

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
		parts = append(parts, "closer to its CPU options")
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
