package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/cpupoold/cpupoold/internal/dra"
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

The pool claims has the CPUs of ResourceClaims: the capacity of the devices that cpupool-dra
publishes, and the CPUs that the scheduler has allocated. A line below the table states how
many of them are prepared, and the accounting: reserved (the kubelet reserves the CPUs) or
mapped (claims count as cpu). The health is away while the daemon does not answer cpupool-dra.
This needs the right to list ResourceSlices and ResourceClaims.

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
			nodes, err := o.overview(cmd.Context(), s)
			if err != nil {
				return err
			}
			return s.show(o.output, overview.Document{Version: overview.Version, Nodes: nodes}, func(w *layout.Writer) { printNodes(w, nodes) })
		},
	}
	o.add(cmd)
	return cmd
}

func (o *nodesOptions) overview(ctx context.Context, s streams) ([]overview.Node, error) {
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
	all := overview.Of(nodes, pods, o.names, time.Now())
	return all, o.addClaims(ctx, a, s, all)
}

// addClaims adds the ResourceClaims to nodes. A cluster before Kubernetes 1.34 does not have the API.
// Without the permission, it prints a note.
func (o *nodesOptions) addClaims(ctx context.Context, a *api, s streams, nodes []overview.Node) error {
	const group = "/apis/resource.k8s.io/v1/"
	published, err := objectsOf[resourcev1.ResourceSlice](ctx, a, group+"resourceslices?spec.driver="+dra.Driver, "application/json")
	var claims []resourcev1.ResourceClaim
	if err == nil && len(published) > 0 {
		claims, err = objectsOf[resourcev1.ResourceClaim](ctx, a, group+"resourceclaims", "application/json")
	}
	switch {
	case err == nil:
		overview.AddClaims(nodes, published, claims)
	case answers(err, http.StatusForbidden):
		fmt.Fprintf(s.err, "note: ResourceClaims are not shown: %v\n", err)
	case !answers(err, http.StatusNotFound):
		return err
	}
	return nil
}

func printNodes(w *layout.Writer, nodes []overview.Node) {
	t := layout.NewTable("NODE", "POOL", "CPUS", "REQUESTED", "FREE", "HEALTH")
	for _, n := range nodes {
		name, health := n.Name, n.Health
		for _, p := range n.Pools {
			t.Row(name, inspect.FullPool(p.Name, p.Type), cpus(p.Capacity), cpus(p.Requested), cpus(p.Free), health)
			name, health = " ", " " // a dash would be a value
		}
		if n.Claims != nil {
			sum := n.Claims.Sum()
			if sum.Away && (name == " " || n.Health == overview.NoPools) {
				health = awayHealth
			}
			t.Row(name, inspect.ClaimedPool, number(sum.Capacity), number(sum.Allocated), number(n.Claims.Free()), health)
		} else if len(n.Pools) == 0 {
			t.Row(name, "", "", "", "", health)
		}
	}
	w.Table(t)
	for _, n := range nodes {
		if n.Message != "" {
			fmt.Fprintf(w, "%s: %s\n", n.Name, layout.Printable(withCode(&n)))
		}
		if n.Claims != nil {
			fmt.Fprintf(w, "%s: claims: %s\n", n.Name, claimState(n.Claims))
		}
	}
}

// awayHealth is the health of CPUs for claims while cpupool-dra gets no answer of the daemon.
const awayHealth = "away"

func claimState(c *overview.Claims) string {
	sum := c.Sum()
	text := fmt.Sprintf("%d of %d allocated CPUs are prepared, accounting %s", sum.Prepared, sum.Allocated, c.Accounting)
	if sum.Capacity == 0 {
		text += "; cpupool-dra publishes no devices of the node"
	}
	if sum.Away {
		text += "; cpupool-dra gets no answer of the daemon, so the scheduler allocates no more"
	}
	return text
}

func number(n int64) string { return strconv.FormatInt(n, 10) }

func withCode(n *overview.Node) string {
	if n.Code == "" {
		return n.Message
	}
	return n.Message + " (" + n.Code + ")"
}

// cpus returns thousandths of a CPU as a number of CPUs.
func cpus(milli int64) string { return strconv.FormatFloat(float64(milli)/1000, 'f', -1, 64) }
