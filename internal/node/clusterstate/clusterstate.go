// Package clusterstate turns the state of the event loop into the state that the node shows to
// its cluster. It has no state.
package clusterstate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// CodeForeignTask is the code of a task of another cgroup on exclusive CPUs (audit.live).
const CodeForeignTask pools.Code = "ForeignTask"

// publicText returns the text of a problem for the cluster. Readers of events in one namespace must not see names
// and commands of pods in other namespaces. A text that is the same for each task also bounds the events: each task
// would be an event of its own.
func publicText(p *pools.Problem) string {
	if p.Code != CodeForeignTask {
		return p.Text
	}
	owner := "this owner"
	if p.Unit != "" {
		owner = "unit " + p.Unit
	}
	return "tasks of other cgroups ran on the exclusive CPUs of " + owner + " in the last ten minutes; `cpupoold status` on the node names one of them, and `cpupoold audit --live 30s` lists all"
}

// Facts are the results of a pass.
type Facts struct {
	Node      view.Node
	Ready     bool
	Observes  bool // mode: observe
	Problems  []pools.Problem
	Faults    map[cgroup.Path]error // cgroups that are not in the desired state
	Runtime   error                 // of the last listing
	Config    error                 // why the last configuration is refused
	Unwritten int                   // writes that were omitted (mode: observe)
}

// State returns the state that the cluster sees after a pass.
func (f *Facts) State() *nodestatus.State {
	n, node := f.Node.Settings.Config.Node, f.Node
	s := &nodestatus.State{
		Names: f.Node.Settings.Names, Resources: n.Resources, Taint: n.StartupTaint, Verified: f.Ready,
		Depletion: node.Depletion(),
	}
	if n.Resources {
		s.Pools, s.Pods = node.Pools(), node.Pods()
	}
	if n.Topology {
		s.Topology = node.Topology()
	}
	if n.Condition {
		s.Condition, s.Heartbeat = f.Condition(), n.Heartbeat
	}
	if n.Events {
		if d := node.Depleted(); d != nil {
			s.Problems = append(s.Problems, nodestatus.Problem{Code: string(d.Code), Text: d.Text})
		}
		for i := range f.Problems {
			p := &f.Problems[i]
			pod, text := p.Pod, publicText(p)
			if p.Claim != "" { // the event is about the pod of the claim
				pod, text = node.PodName(p.PodUID), "claim "+p.Claim+": "+text
			}
			// The name is namespace/name: see pools.Problem.
			if namespace, name, ok := strings.Cut(pod, "/"); ok && p.PodUID != "" {
				s.Problems = append(s.Problems, nodestatus.Problem{
					UID: p.PodUID, Namespace: namespace, Pod: name, Container: p.Container, Code: string(p.Code), Text: text,
				})
			}
		}
	}
	if f.Observes {
		return s.ConditionOnly()
	}
	return s
}

// Condition returns the most severe condition of the daemon.
func (f *Facts) Condition() *nodestatus.Condition {
	bad := func(code, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Reason: code, Message: message}
	}
	good := func(code, message string) *nodestatus.Condition {
		return &nodestatus.Condition{Ready: true, Reason: code, Message: message}
	}
	if !f.Ready {
		return bad("Starting", "the first pass is not over yet")
	}
	if err := f.Runtime; err != nil {
		return bad("RuntimeUnavailable", err.Error())
	}
	if f.Observes {
		return good("Observing", fmt.Sprintf("mode is observe: containers and units are left where they are; %d writes would put them into their pools", f.Unwritten))
	}
	if paths := slices.Sorted(maps.Keys(f.Faults)); len(paths) > 0 {
		text := fmt.Sprintf("%s: %s", paths[0], f.Faults[paths[0]])
		if more := len(paths) - 1; more > 0 {
			text += fmt.Sprintf("; and %d cgroups more", more)
		}
		return bad("NotAsPlanned", text)
	}
	if d := f.Node.Depleted(); d != nil {
		return good(string(d.Code), d.Text)
	}
	if err := f.Config; err != nil {
		return good("ConfigurationRefused", "an older configuration is in force: "+err.Error())
	}
	if len(f.Node.Settings.Adapted) > 0 {
		return good("ConfigurationAdapted", "the configuration does not fit this machine: "+f.Node.Settings.Adapted[0])
	}
	for i := range f.Problems {
		if p := &f.Problems[i]; p.PodUID == "" {
			return good("Degraded", publicText(p))
		}
	}
	return good("AsPlanned", "containers and units are on the CPUs of their pools")
}

// WithStats returns v with the state of the connection to the cluster.
func WithStats(v *telemetry.View, stats nodestatus.Stats) *telemetry.View {
	all := *v
	all.Sources = maps.Clone(v.Sources)
	if all.Sources == nil {
		all.Sources = make(map[telemetry.Source]telemetry.SourceState)
	}
	all.Sources[telemetry.APIServer] = telemetry.LostIf(!stats.Connected)
	all.Node = &stats.NodeView
	return &all
}
