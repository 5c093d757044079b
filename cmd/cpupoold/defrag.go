package main

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/node/control"
	"github.com/cpupoold/cpupoold/internal/node/hostenv"
	"github.com/cpupoold/cpupoold/internal/node/preview"
	"github.com/cpupoold/cpupoold/pkg/defrag"
	"github.com/cpupoold/cpupoold/pkg/topology"
)

// doDefrag is plan --defrag.
func (a *app) doDefrag(ctx context.Context, c *config.Config, t *topology.Topology, output format, apply bool) error {
	client := control.NewClient(control.Socket(c.RunDir))
	defer client.Close()
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

// defragReport is what plan --defrag prints.
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
	for _, r := range results {
		if r.Outcome != control.Done {
			return exitCode(exitFindings)
		}
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
