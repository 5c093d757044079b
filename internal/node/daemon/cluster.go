package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
)

// joinCluster prepares the goroutine that shows the node to its cluster.
func (l *Loop) joinCluster(o Options) error {
	options, err := nodestatus.OptionsFor(o.Config, o.Environment, o.Log)
	if err != nil || options == nil {
		return err
	}
	o.Log.Info("the node's pools are shown to its cluster", "node", options.Name, "access", options.Access.String())
	l.cluster = nodestatus.New(*options)
	return nil
}

// showCluster hands the state of the node to that goroutine. It never waits.
func (l *Loop) showCluster() {
	if l.cluster != nil && l.status.planned {
		l.cluster.Show(l.clusterState())
	}
}

// clusterState returns the state that the cluster sees after a pass.
func (l *Loop) clusterState() *nodestatus.State {
	n, node := l.settings.Config.Node, l.node()
	s := &nodestatus.State{
		Names: l.settings.Names, Resources: n.Resources, Taint: n.StartupTaint, Verified: l.status.ready,
		Depletion: node.Depletion(),
	}
	if n.Resources {
		s.Pools, s.Pods = node.Pools(), node.Pods()
	}
	if n.Topology {
		s.Topology = node.Topology()
	}
	if n.Condition {
		s.Condition, s.Heartbeat = l.condition(), n.Heartbeat
	}
	if n.Events {
		if d := node.Depleted(); d != nil {
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

// condition returns the most severe condition of the daemon.
func (l *Loop) condition() *nodestatus.Condition {
	bad := func(code, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Reason: code, Message: message}
	}
	good := func(code, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Ready: true, Reason: code, Message: message}
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
	if d := l.node().Depleted(); d != nil {
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

// viewWithCluster returns the published metrics with the present state of the connection to
// the cluster.
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

// observingCondition returns the condition of the node in mode: observe, else nil.
func (l *Loop) observingCondition() *nodestatus.Condition {
	if !l.Observes {
		return nil
	}
	return &nodestatus.Condition{Ready: true, Reason: "Observing",
		Message: fmt.Sprintf("mode is observe: containers and units are left where they are; %d writes would put them into their pools", len(l.status.unwritten))}
}

// viewWithAudit returns the published view with the results of the audit.
func (l *Loop) viewWithAudit() *telemetry.View {
	v, found := l.viewWithCluster(), l.auditor.Result()
	if v == nil || found == nil {
		return v
	}
	all := *v
	all.Audit = found
	return &all
}
