package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
	"github.com/cpupoold/cpupoold/pkg/workload"
)

const nodesHelp = `Lists the nodes of a cluster with their pools: capacity, requests of pods, free CPUs and
state. It reads objects of the API server, and needs the right to list nodes and pods.

The state of a node is one of these:

  ready      the node is in the desired state
  not ready  its daemon reports the cause
  depleted   the shared pool is below its floor
  stale      the reports of the node have stopped
  untold     the node has resources, and no condition of the daemon
  unknown    the daemon reports an unknown state
  no pools   no daemon has reported pools

The scheduler counts CPUs by the pools' resources. A pod without such a request, because
it never passed the webhook, is not counted.`

// nodesOptions are the flags of nodes, and of commands that look at nodes, too.
type nodesOptions struct {
	clusterFlags
	names  workload.Names
	output string
}

func (o *nodesOptions) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	o.addConfig(flags, "")
	addNames(flags, &o.names, "workload types' resources")
	flags.StringVarP(&o.output, "output", "o", "text", "`FORMAT`: text or json")
}

func (o *nodesOptions) check() error { return checkOutput(o.output) }

func nodesCommand(s streams) *cobra.Command {
	o := &nodesOptions{}
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "List the cluster's nodes and pools: capacity, use and health",
		Long:  nodesHelp,
		Args:  flagsOnly(o.check),
		RunE: func(cmd *cobra.Command, _ []string) error {
			nodes, err := o.overview(cmd.Context())
			if err != nil {
				return err
			}
			return s.show(o.output, overview.Document{Version: overview.Version, Nodes: nodes}, func(w *layout.Writer) { printNodes(w, nodes) })
		},
	}
	o.add(cmd)
	return cmd
}

func (o *nodesOptions) overview(ctx context.Context) ([]overview.Node, error) {
	a, err := o.connect()
	if err != nil {
		return nil, err
	}
	nodes, err := objectsOf[corev1.Node](ctx, a, "/api/v1/nodes", "application/json")
	if err != nil {
		return nil, err
	}
	pods, err := objectsOf[corev1.Pod](ctx, a, "/api/v1/pods", "application/json")
	if err != nil {
		return nil, err
	}
	return overview.Of(nodes, pods, o.names, time.Now()), nil
}

func printNodes(w *layout.Writer, nodes []overview.Node) {
	t := layout.NewTable("NODE", "POOL", "CPUS", "REQUESTED", "FREE", "HEALTH")
	for i := range nodes {
		n := &nodes[i]
		name, health := n.Name, n.Health
		for j := range n.Pools {
			p := &n.Pools[j]
			t.Row(name, inspect.FullPool(p.Name, p.Type), cpus(p.Capacity), cpus(p.Requested), cpus(p.Free), health)
			name, health = " ", " " // a dash would be a value
		}
		if len(n.Pools) == 0 {
			t.Row(name, "", "", "", "", health)
		}
	}
	w.Table(t)
	for i := range nodes {
		if n := &nodes[i]; n.Message != "" {
			fmt.Fprintf(w, "%s: %s\n", n.Name, layout.Printable(withCode(n)))
		}
	}
}

func withCode(n *overview.Node) string {
	if n.Code == "" {
		return n.Message
	}
	return n.Message + " (" + n.Code + ")"
}

func cpus(milli int64) string {
	text := strconv.FormatFloat(float64(milli)/1000, 'f', 3, 64)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
