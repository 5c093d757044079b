package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/layout"
	"github.com/cpupoold/cpupoold/internal/plugin/overview"
)

const describeHelp = `Describes a node: its pools as the scheduler counts them, the pods that request CPUs of
each pool, and the status of its daemon. The status is the output of cpupoold status, which
the command runs in the daemon's pod as kubectl exec does. --daemon=false omits it.`

func describeCommand(s streams) *cobra.Command {
	o := &nodesOptions{}
	var d daemonFlags
	var ask bool
	cmd := &cobra.Command{
		Use:   "describe node NAME",
		Short: "Describe a node: its pools, their pods, and the status of its daemon",
		Long:  describeHelp,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] != "node" && args[0] != "nodes" {
				return errors.New("give node, and the name of one")
			}
			return o.check()
		},
	}
	o.add(cmd)
	d.add(cmd.Flags())
	cmd.Flags().BoolVar(&ask, "daemon", true, "also query the daemon of the node; not with -o json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		nodes, err := o.overview(ctx, s)
		if err != nil {
			return err
		}
		nodes = slices.DeleteFunc(nodes, func(n overview.Node) bool { return n.Name != args[1] })
		if len(nodes) == 0 {
			return fmt.Errorf("node %q not found; kubectl cpupool nodes lists the nodes", args[1])
		}
		err = s.show(o.output, overview.Document{Version: overview.Version, Nodes: nodes}, func(w *layout.Writer) { printNode(w, &nodes[0]) })
		if err != nil || !ask || o.output == "json" {
			return err
		}
		fmt.Fprintln(s.out)
		all, err := o.daemons(ctx, d)
		if err != nil {
			return err
		}
		return all.run(ctx, args[1], layout.Lines(s.out), "status")
	}
	return cmd
}

func printNode(w *layout.Writer, n *overview.Node) {
	t := layout.NewTable("Node", n.Name)
	t.Row("Health", n.Health)
	if n.Message != "" {
		t.Row("Message", withCode(n))
	}
	if !n.AsOf.IsZero() {
		t.Row("As of", n.AsOf.Format(time.RFC3339))
	}
	w.Table(t)
	for _, p := range n.Pools {
		fmt.Fprintf(w, "\n%s: %s CPUs, %s requested, %s free (%s)\n", layout.Printable(inspect.FullPool(p.Name, p.Type)), cpus(p.Capacity), cpus(p.Requested), cpus(p.Free), p.Resource)
		t := &layout.Table{}
		for _, pod := range p.Pods {
			t.Row("  "+pod.Namespace+"/"+pod.Name, cpus(pod.Requested))
		}
		w.Table(t)
	}
	if n.Claims != nil {
		printClaims(w, n.Claims)
	}
}

func printClaims(w *layout.Writer, c *overview.Claims) {
	sum := c.Sum()
	fmt.Fprintf(w, "\n%s: %d CPUs, %d allocated, %d prepared, %d free (accounting %s)\n", inspect.ClaimedPool, sum.Capacity, sum.Allocated, sum.Prepared, c.Free(), c.Accounting)
	t := &layout.Table{}
	for _, d := range c.Devices {
		health := ""
		if d.Away {
			health = awayHealth
		}
		t.Row("  "+d.Name, number(d.Capacity), fmt.Sprintf("%d allocated", d.Allocated), fmt.Sprintf("%d prepared", d.Prepared), health)
	}
	w.Table(t)
	t = &layout.Table{}
	for _, claim := range c.Allocated {
		state := "allocated"
		if claim.Prepared {
			state = "prepared"
		}
		if claim.Message != "" {
			state += ": " + layout.Printable(claim.Message)
		}
		t.Row("  "+claim.Namespace+"/"+claim.Name, number(claim.CPUs), strings.Join(claim.Pods, ", "), state)
	}
	w.Table(t)
}
