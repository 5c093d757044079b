package daemon

import (
	"cmp"
	"slices"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// shownTopology is what schedulers that look into nodes are to see after a pass.
func (l *Loop) shownTopology() *nodestatus.Topology {
	all := l.settings.Topology.Nodes
	nodes := make([]nodestatus.NUMANode, 0, len(all))
	for _, n := range all {
		distances := make(map[int]int, len(all))
		for i, d := range n.Distances {
			distances[all[i].ID] = d
		}
		nodes = append(nodes, nodestatus.NUMANode{ID: n.ID, CPUs: n.CPUs, Distances: distances})
	}
	options := l.settings.Config.Pools.Guaranteed.Options
	t := &nodestatus.Topology{
		Policy: string(cmp.Or(options.TopologyPolicy, allocate.BestEffort)),
		Zones:  l.layout().Zones(nodes, l.status.plan.Free, l.settings.Names.GuaranteedResource()),
	}
	for _, p := range l.status.plan.Pods {
		// To the API a pod runs when one of its containers does.
		runs := slices.ContainsFunc(p.Containers, func(c pools.Placement) bool { return c.Kind != pools.Infra && c.State == pools.Running })
		if runs && p.UID != "" {
			t.Pods = append(t.Pods, nodestatus.PodName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return t
}
