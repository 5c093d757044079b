package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/config"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// joinCluster makes the goroutine's part ready that shows the node to its cluster.
func (l *Loop) joinCluster(o Options) error {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err != nil || options == nil {
		return err
	}
	o.Log.Info("the node's pools are shown to its cluster", "node", options.Name, "access", options.Access.String())
	l.cluster = nodestatus.New(*options)
	return nil
}

// showCluster hands over what is to be seen. It never waits.
func (l *Loop) showCluster() {
	if l.cluster != nil && l.status.planned {
		l.cluster.Show(l.clusterState())
	}
}

// clusterState is what the cluster is to see after a pass.
func (l *Loop) clusterState() *nodestatus.State {
	n := l.settings.Config.Node
	s := &nodestatus.State{
		Names: l.settings.Names, Resources: n.Resources, Taint: n.StartupTaint, Verified: l.status.ready,
		Depletion: l.depletion(),
	}
	if n.Resources {
		s.Pools, s.Pods = l.countedPools(), l.countedPods()
	}
	if n.Topology {
		s.Topology = l.shownTopology()
	}
	if n.Condition {
		s.Condition, s.Heartbeat = l.condition(), n.Heartbeat
	}
	if n.Events {
		if d := l.depleted(); d != nil {
			s.Problems = append(s.Problems, nodestatus.Problem{Code: string(d.Code), Text: d.Text})
		}
		for _, p := range l.problems() {
			// The name is namespace/name: see pools.Problem.
			if namespace, name, ok := strings.Cut(p.Pod, "/"); ok && p.PodUID != "" {
				s.Problems = append(s.Problems, nodestatus.Problem{
					UID: p.PodUID, Namespace: namespace, Pod: name, Container: p.Container, Code: string(p.Code), Text: p.Text,
				})
			}
		}
	}
	if l.Observes {
		return s.ConditionOnly()
	}
	return s
}

// countedPools are what the scheduler may give away.
func (l *Loop) countedPools() []nodestatus.Pool { return l.layout().Pools(l.settings.Names) }

// layout is what CPUs pools have. What units of the configuration own, and what the
// kernel has lost, is nothing for pods.
func (l *Loop) layout() nodestatus.Layout {
	configured, p := l.settings.Config.Pools, l.settings.Pools
	layout := nodestatus.Layout{
		Online: l.settings.Topology.Online, Shared: p.Shared, Guaranteed: p.Guaranteed,
		HasGuaranteed: !configured.Guaranteed.CPUs.IsEmpty(), Taken: l.isolation.leaked,
	}
	for _, u := range l.status.plan.Units {
		if u.Exclusive {
			layout.Taken = layout.Taken.Union(u.CPUs)
		}
	}
	for _, part := range configured.Partitions {
		layout.Types = append(layout.Types, part.Type)
	}
	return layout
}

// countedPods are the kubelet's pods with what they use.
func (l *Loop) countedPods() []nodestatus.Pod {
	var pods []nodestatus.Pod
	for _, plan := range l.status.plan.Pods {
		if plan.UID == "" {
			continue // no scheduler has put it here
		}
		pod := nodestatus.Pod{UID: plan.UID, Resource: l.settings.Names.SharedResource()}
		for _, c := range plan.Containers {
			resource := l.resourceOf(&c)
			if c.Pool == pools.Management {
				pod.Resource = resource
			}
			if c.Kind == pools.Infra {
				continue
			}
			counted := nodestatus.Container{Name: c.Name, Resource: resource, Presumed: c.Pool != pools.Management, Annotated: c.Shares > 0}
			shares := c.Shares
			if e := l.inventory.Container(c.ID); e != nil && shares == 0 {
				shares = e.Request().Shares
			}
			if c.State == pools.Exited || c.Unread || c.Pool == pools.Other || c.Reason.Code == pools.CodeWaiting {
				counted.Resource = "" // it is not settled where it will run
			}
			if c.State != pools.Exited {
				counted.Milli = milliOf(shares)
			}
			pod.Containers = append(pod.Containers, counted)
		}
		pods = append(pods, pod)
	}
	return pods
}

// resourceOf is the resource by which the pool of a container is counted. CPUs that are
// carved out of the shared pool are counted there.
func (l *Loop) resourceOf(c *pools.Placement) string {
	names := l.settings.Names
	switch {
	case c.Pool == pools.Management:
		return names.CoresResource(c.Type)
	case c.Pool == pools.Guaranteed && !l.settings.Pools.FromShared:
		return names.GuaranteedResource()
	}
	return names.SharedResource()
}

// milliOf is the CPU request that the kubelet has made shares of, rounded up; those of
// no request are 2.
func milliOf(shares uint64) int64 {
	if shares <= 2 {
		return 0
	}
	return int64(min(shares, 262144)*1000+1023) / 1024
}

// condition is how the daemon fares, the gravest first.
func (l *Loop) condition() *nodestatus.Condition {
	bad := func(reason, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Reason: reason, Message: message}
	}
	good := func(reason, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Ready: true, Reason: reason, Message: message}
	}
	if !l.status.ready {
		return bad("Starting", "the first pass is not over yet")
	}
	if err := l.status.runtimeErr; err != nil {
		return bad("RuntimeUnavailable", err.Error())
	}
	if c := l.observingCondition(); c != nil {
		return c
	}
	if paths := slices.Sorted(maps.Keys(l.status.faults)); len(paths) > 0 {
		return bad("NotAsPlanned", worst(paths, l.status.faults))
	}
	if d := l.depleted(); d != nil {
		return good(string(d.Code), d.Text)
	}
	if err := l.status.configErr; err != nil {
		return good("ConfigurationRefused", "an older configuration is in force: "+err.Error())
	}
	if len(l.settings.Adapted) > 0 {
		return good("ConfigurationAdapted", "the configuration does not fit this machine: "+l.settings.Adapted[0])
	}
	for _, p := range l.problems() {
		if p.PodUID == "" {
			return good("Degraded", p.Text)
		}
	}
	return good("AsPlanned", "containers and units are on the CPUs of their pools")
}

func worst(paths []cgroup.Path, faults map[cgroup.Path]error) string {
	text := fmt.Sprintf("%s: %s", paths[0], faults[paths[0]])
	if more := len(paths) - 1; more > 0 {
		return fmt.Sprintf("%s; and %d cgroups more", text, more)
	}
	return text
}

// viewWithCluster adds to the published view what the cluster is shown, as it is now.
func (l *Loop) viewWithCluster() *telemetry.View {
	v := l.snapshot.Load()
	if v == nil || l.cluster == nil {
		return v
	}
	stats := l.cluster.Stats()
	all := *v
	all.Sources = maps.Clone(v.Sources)
	if all.Sources == nil {
		all.Sources = make(map[telemetry.Source]telemetry.SourceState)
	}
	all.Sources[telemetry.APIServer] = telemetry.SourceLost
	if stats.Connected {
		all.Sources[telemetry.APIServer] = telemetry.SourceOK
	}
	shown := &telemetry.NodeView{Pressure: stats.Pressure, Patches: results(stats.Patches), Events: results(stats.Events)}
	for _, a := range stats.Amounts {
		shown.Resources = append(shown.Resources, telemetry.NodeResource{Name: a.Resource, Milli: a.Milli, Unaccounted: a.Unaccounted})
	}
	all.Node = shown
	return &all
}

func results(counts map[nodestatus.Result]uint64) map[telemetry.Result]uint64 {
	all := make(map[telemetry.Result]uint64, len(counts))
	for result, n := range counts {
		all[telemetry.Result(result)] = n
	}
	return all
}

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
	var pods []nodestatus.PodName
	for _, p := range l.status.plan.Pods {
		// To the API a pod runs when one of its containers does.
		runs := slices.ContainsFunc(p.Containers, func(c pools.Placement) bool { return c.Kind != pools.Infra && c.State == pools.Running })
		if runs && p.UID != "" {
			pods = append(pods, nodestatus.PodName{Namespace: p.Namespace, Name: p.Name})
		}
	}
	return &nodestatus.Topology{
		Policy: string(cmp.Or(l.settings.Config.Pools.Guaranteed.Options.TopologyPolicy, allocate.BestEffort)),
		Zones:  l.layout().Zones(nodes, l.status.plan.Free, l.settings.Names.GuaranteedResource()),
		Pods:   pods,
	}
}

// ownShared are the CPUs that the shared pool has at the moment and that are its own. One
// that has lost all of them runs on those of others, and is no less depleted for that.
func (l *Loop) ownShared() cpuset.Set {
	configured := l.settings.Config.Pools
	others := l.isolation.leaked.Union(configured.Guaranteed.CPUs)
	for _, u := range l.status.plan.Units {
		if u.Exclusive {
			others = others.Union(u.CPUs)
		}
	}
	if configured.StrictReservation {
		for _, p := range configured.Partitions {
			others = others.Union(p.CPUs)
		}
	}
	return l.shared().Difference(others)
}

// depletion is what the cluster's part decides by. The owner's part is the size alone.
func (l *Loop) depletion() *nodestatus.Depletion {
	d := l.settings.Config.Depletion
	return &nodestatus.Depletion{
		CPUs: l.ownShared().Len(), Floor: d.Floor, ClearAfter: d.ClearAfter, Show: d.Shows(), Evict: d.Action == config.DepletionEvict,
	}
}

// depleted is the problem that the shared pool is depleted; nil when it is not.
func (l *Loop) depleted() *pools.Problem {
	d, own := l.settings.Config.Depletion, l.ownShared()
	if own.Len() >= d.Floor {
		return nil
	}
	text := fmt.Sprintf("the shared pool has %d CPUs of its own, and should have %d (depletion.floor); pods without a CPU request have no others", own.Len(), d.Floor)
	if d.Action != config.DepletionWarn && d.DryRun {
		text += fmt.Sprintf("; with depletion.dryRun: false the node would be tainted (depletion.action: %s)", d.Action)
	}
	return &pools.Problem{Reason: pools.Reason{Code: view.CodeDepleted, Text: text}}
}
