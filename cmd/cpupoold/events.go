package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/control"
	"github.com/cpupoold/cpupoold/internal/document"
	"github.com/cpupoold/cpupoold/internal/explain"
	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/usage"
)

type eventFlags struct {
	since, of string // --since, --pod
	kinds     []string
	limit     int
	follow    bool
}

func (a *app) events() *cobra.Command {
	c := &cobra.Command{
		Use:   "events",
		Short: "Print the decisions and writes of the daemon, with time and reason",
		Long: `Events prints the history of the running daemon: placements of containers and units, writes
and refused writes, writes of other processes, problems, moves, and changes of the
configuration and of CPUs. The daemon keeps the latest 4096 events since its start, 2 MiB at
most, in memory.

With --follow, the command also prints each later event until you stop it. With -o json,
each event is one line.`,
		Args: cobra.NoArgs,
	}
	output := outputFlag(c)
	var f eventFlags
	flags := c.Flags()
	flags.StringVar(&f.since, "since", "", "only events since a `time`: RFC 3339, or a duration back from now, such as 90m")
	flags.StringVar(&f.of, "pod", "", "only events of a `pod`: name, namespace/name, UID, with /container, or a unit")
	flags.StringSliceVar(&f.kinds, "kind", nil, "only events of these `kinds`, such as placed,wrote,failed")
	flags.IntVar(&f.limit, "limit", 0, "only the latest `n` events")
	flags.BoolVarP(&f.follow, "follow", "f", false, "also print each later event")
	c.RunE = func(c *cobra.Command, _ []string) error {
		q, err := f.query(time.Now())
		if err != nil {
			return usage.New(c, err)
		}
		client := a.daemon()
		return a.doEvents(c.Context(), client, q, f.follow, *output)
	}
	return c
}

// query returns the query of the flags. A duration of --since counts back from now.
func (f *eventFlags) query(now time.Time) (history.Query, error) {
	q := history.Query{About: f.of, Limit: f.limit}
	if f.limit < 0 {
		return q, errors.New("--limit is below 0; leave it out for all events")
	}
	for _, k := range f.kinds {
		q.Kinds = append(q.Kinds, history.Kind(k))
	}
	if f.since == "" {
		return q, nil
	}
	at, err := time.Parse(time.RFC3339, f.since)
	if back, isDuration := time.ParseDuration(f.since); isDuration == nil && back >= 0 {
		at, err = now.Add(-back), nil
	}
	if err != nil {
		return q, fmt.Errorf("--since %q is neither a time like 2026-01-31T12:00:00Z nor a duration like 90m", f.since)
	}
	q.Since = at
	return q, nil
}

// doEvents prints the events of q, and with follow also each later event. Once the daemon has answered,
// doEvents reports errors and asks again, so that it survives a restart of the daemon. The first error ends it.
func (a *app) doEvents(ctx context.Context, client *control.Client, q history.Query, follow bool, output format) error {
	var started time.Time
	var wait control.Wait
	for {
		got, err := client.Events(ctx, q, wait)
		if err != nil {
			wait = control.Wait{}
			if again, err := a.retry(ctx, err, !started.IsZero()); !again {
				return err
			}
			continue
		}
		if !started.IsZero() && !got.Started.Equal(started) { // another daemon, which numbers its events from the beginning
			if output == asTable {
				if _, err := fmt.Fprintln(a.out, "--- the daemon was started again ---"); err != nil {
					return err
				}
			}
			q.After, wait, started = 0, control.Wait{}, got.Started
			continue
		}
		started = got.Started
		if err := a.printEvents(got.Events, output); err != nil {
			return err
		}
		if !follow {
			return nil
		}
		q.After, q.Limit, wait = got.Last, 0, control.Wait{For: watchTimeout, Daemon: got.Started}
	}
}

func (a *app) printEvents(events []history.Event, output format) error {
	for i := range events {
		var err error
		if output == asJSON {
			err = document.WriteLine(a.out, &events[i])
		} else {
			_, err = fmt.Fprintln(a.out, explain.EventLine(&events[i]))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
