package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
	"github.com/cpupoold/cpupoold/internal/plugin/viewer"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
)

const topHelp = `Shows the CPU use of each pool, and with --owners of each owner of exclusive CPUs. The
kernels of the nodes count the CPU time of all tasks on a CPU, also of host services.

The command queries the daemon of each node twice, --interval apart. Each query runs
cpupoold status in the daemon's pod, as kubectl exec does.`

// maxAsked is the maximum number of concurrent queries.
const maxAsked = 8

type topOptions struct {
	clusterFlags
	daemonFlags
	interval time.Duration
	owners   bool
	output   string
}

func topCommand(s streams) *cobra.Command {
	o := &topOptions{}
	cmd := &cobra.Command{
		Use:   "top [NODE...]",
		Short: "Show the CPU use of the pools of each node",
		Long:  topHelp,
		Args:  func(*cobra.Command, []string) error { return o.check() },
		RunE:  func(cmd *cobra.Command, nodes []string) error { return o.run(cmd.Context(), s, nodes) },
	}
	flags := cmd.Flags()
	o.addConfig(flags, "")
	o.daemonFlags.add(flags)
	flags.DurationVar(&o.interval, "interval", 2*time.Second, "`TIME` between the two queries of a node")
	flags.BoolVar(&o.owners, "owners", false, "also show the owners of exclusive CPUs")
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
	return cmd
}

func (o *topOptions) check() error {
	if o.interval < 100*time.Millisecond || o.interval > time.Hour {
		return fmt.Errorf("--interval %v: give a time from 100ms to 1h", o.interval)
	}
	return checkOutput(o.output)
}

type usageRow struct {
	Node  string     `json:"node"`
	Pool  string     `json:"pool"`
	Owner string     `json:"owner,omitempty"`
	CPUs  cpuset.Set `json:"cpus"`
	// Busy is how many CPUs' worth of time they were busy.
	Busy float64 `json:"busy"`
}

type usageDocument struct {
	Version int        `json:"version"`
	Rows    []usageRow `json:"rows"`
}

func (o *topOptions) run(ctx context.Context, s streams, nodes []string) error {
	all, err := o.daemons(ctx, o.daemonFlags)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		if nodes = slices.Sorted(maps.Keys(all.byNode)); len(nodes) == 0 {
			return fmt.Errorf("no daemon's pod runs (%s in namespace %s); see --daemon-namespace and --daemon-selector", o.selector, o.namespace)
		}
	}
	found, errs := make([][]usageRow, len(nodes)), make([]error, len(nodes))
	var g errgroup.Group
	g.SetLimit(maxAsked)
	for i, node := range nodes {
		g.Go(func() error {
			found[i], errs[i] = o.measure(ctx, all, node)
			return nil // the measurements of the other nodes continue
		})
	}
	_ = g.Wait() // no job returns an error
	rows := slices.Concat(found...)
	if o.output == "json" || len(rows) > 0 {
		err = s.show(o.output, usageDocument{overview.Version, rows}, func(w *layout.Writer) { printUsage(w, rows) })
	}
	return errors.Join(append(errs, err)...)
}

func (o *topOptions) measure(ctx context.Context, all *daemons, node string) ([]usageRow, error) {
	feed := viewer.NewFeed()
	for i := range 2 {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(o.interval):
			}
		}
		s, err := all.status(ctx, node)
		if err != nil {
			return nil, err
		}
		feed.Put(s)
	}
	state, _ := feed.Now()
	if len(state.Load) == 0 {
		return nil, fmt.Errorf("node %s: its daemon reports no CPU use; check that it has run for a few seconds, and that it is not older than this program", node)
	}
	return usageOf(node, state.Status, state.Load, o.owners), nil
}

// usageOf returns the use of the CPUs of the pools. It skips offline CPUs.
func usageOf(node string, s *inspect.Status, load map[int]float64, owners bool) (rows []usageRow) {
	index := make(map[[2]string]int)
	for _, c := range s.CPUs {
		if !c.Online || c.Pool == "" {
			continue
		}
		pool := inspect.FullPool(c.Pool, c.Type)
		for _, owner := range slices.Compact([]string{"", c.Owner}) {
			if owner != "" && !owners {
				continue
			}
			key := [2]string{pool, owner}
			i, known := index[key]
			if !known {
				i = len(rows)
				index[key] = i
				rows = append(rows, usageRow{Node: node, Pool: pool, Owner: owner})
			}
			rows[i].CPUs = rows[i].CPUs.Union(cpuset.Of(c.ID))
			rows[i].Busy += load[c.ID]
		}
	}
	order := func(r usageRow) int {
		return slices.Index([]string{inspect.Management, inspect.Shared, inspect.Guaranteed, inspect.ClaimedPool}, strings.Split(r.Pool, "/")[0])
	}
	slices.SortStableFunc(rows, func(a, b usageRow) int {
		return cmp.Or(order(a)-order(b), cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Owner, b.Owner))
	})
	return rows
}

func printUsage(w *layout.Writer, rows []usageRow) {
	t := layout.NewTable("NODE", "POOL", "CPUS", "BUSY", "%", "OWNER")
	for i, r := range rows {
		node := r.Node
		if i > 0 && rows[i-1].Node == r.Node {
			node = " " // a dash would be a value
		}
		t.Row(node, r.Pool, r.CPUs.String(), fmt.Sprintf("%.2f", r.Busy), fmt.Sprintf("%.0f", 100*r.Busy/float64(r.CPUs.Len())), r.Owner)
	}
	w.Table(t)
}
