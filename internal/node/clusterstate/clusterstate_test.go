package clusterstate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/clusterstate"
	"github.com/cpupoold/cpupoold/internal/node/desired"
	"github.com/cpupoold/cpupoold/internal/node/inventory"
	"github.com/cpupoold/cpupoold/internal/node/nodestatus"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/node/view"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

// facts returns the facts of a node in the desired state.
func facts(t *testing.T) clusterstate.Facts {
	t.Helper()
	n := nodefixture.New(t, nodefixture.Spec{})
	n.YAML = nodefixture.PoolsYAML
	c, err := n.Config()
	s := new(desired.Settings)
	if err == nil {
		_, err = s.Begin(c, n.CPUs.Now(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return clusterstate.Facts{Ready: true, Node: view.Node{Settings: s, Plan: &pools.Plan{Shared: s.Pools.Shared}, Planned: true, Objects: inventory.New(cgroup.DriverSystemd).Objects()}}
}

// TestCondition checks that the most severe of several facts is the condition.
func TestCondition(t *testing.T) {
	var f clusterstate.Facts
	for _, c := range []struct { // each case adds a fact that is more severe
		name   string
		add    func()
		ready  bool
		reason string
		text   string
	}{
		{"nothing", func() { f = facts(t) }, true, "AsPlanned", "CPUs of their pools"},
		{"problem of a pod", func() { f.Problems = []pools.Problem{{PodUID: "u", Reason: pools.Reason{Text: "of a pod"}}} }, true, "AsPlanned", ""},
		{"problem of the node", func() { f.Problems = append(f.Problems, pools.Problem{Reason: pools.Reason{Text: "of the node"}}) }, true, "Degraded", "of the node"},
		{"adapted", func() { f.Node.Settings.Adapted = []string{"CPU 9 does not exist"} }, true, "ConfigurationAdapted", "CPU 9"},
		{"refused configuration", func() { f.Config = errors.New("no pools") }, true, "ConfigurationRefused", "no pools"},
		{"no shared CPUs", func() { f.Node.Plan = new(pools.Plan) }, true, "SharedDepleted", "0 CPUs"},
		{"fault", func() { f.Faults = map[cgroup.Path]error{"b": errors.New("wrong"), "a": errors.New("busy")} }, false, "NotAsPlanned", "a: busy; and 1 cgroups more"},
		{"observing", func() { f.Observes, f.Unwritten = true, 3 }, true, "Observing", "3 writes"},
		{"no runtime", func() { f.Runtime = errors.New("connection refused") }, false, "RuntimeUnavailable", "connection refused"},
		{"not ready", func() { f.Ready = false }, false, "Starting", ""},
	} {
		c.add()
		got := f.Condition()
		if got.Ready != c.ready || got.Reason != c.reason || !strings.Contains(got.Message, c.text) {
			t.Errorf("%s: %+v; want ready %t, %s with %q", c.name, *got, c.ready, c.reason, c.text)
		}
	}
}

// TestProblemsOfClaims checks that a problem of a ResourceClaim is an event of its pod, if the node has
// the pod.
func TestProblemsOfClaims(t *testing.T) {
	f := facts(t)
	f.Node.Settings.Config.Node.Events = true
	f.Node.Plan.Pods = []pools.PodPlan{{UID: "u", Namespace: "ran", Name: "du"}}
	for _, uid := range []string{"u", "gone"} {
		f.Problems = append(f.Problems, pools.Problem{PodUID: uid, Claim: "ran/cpus", Reason: pools.Reason{Code: pools.CodeOffline, Text: "CPU 5 is offline"}})
	}
	want := []nodestatus.Problem{{UID: "u", Namespace: "ran", Pod: "du", Code: "Offline", Text: "claim ran/cpus: CPU 5 is offline"}}
	if d := cmp.Diff(want, f.State().Problems); d != "" {
		t.Errorf("problems (-want +got):\n%s", d)
	}
	if c := f.Condition(); c.Reason != "AsPlanned" {
		t.Errorf("condition %+v; want AsPlanned", c)
	}
}

// TestForeignTasks checks that the cluster sees no names and commands of the tasks of other pods on exclusive CPUs,
// and that further tasks change nothing that it sees.
func TestForeignTasks(t *testing.T) {
	show := func(unit, command string) (string, *nodestatus.Condition) {
		f := facts(t)
		f.Node.Settings.Config.Node.Events = true
		p := pools.Problem{PodUID: "u", Pod: "ran/du", Container: "app", Reason: pools.Reason{Code: clusterstate.CodeForeignTask,
			Text: "CPU 4 is exclusive, and a task of another cgroup ran on it: \"" + command + "\", PID 7, cgroup \"x\" of pod secret/agent, container main; confine host services"}}
		if unit != "" {
			p.PodUID, p.Pod, p.Container, p.Unit = "", "", "", unit
		}
		f.Problems = []pools.Problem{p}
		text := ""
		for _, event := range f.State().Problems {
			text += event.Text
		}
		return text, f.Condition()
	}
	text, _ := show("", "hog")
	if more, _ := show("", "other"); text == "" || strings.Contains(text, "hog") || strings.Contains(text, "secret") || more != text {
		t.Errorf("events %q and %q; want the same text without names", text, more)
	}
	_, c := show("du.service", "hog")
	if _, more := show("du.service", "other"); strings.Contains(c.Message, "hog") || strings.Contains(c.Message, "secret") || !strings.Contains(c.Message, "du.service") || *more != *c {
		t.Errorf("conditions %+v and %+v; want the same text with the unit", c, more)
	}
}

// TestWithStats checks that the state of the connection is added to a copy of the view.
func TestWithStats(t *testing.T) {
	before := &telemetry.View{Sources: map[telemetry.Source]telemetry.SourceState{telemetry.NRI: telemetry.SourceOK}}
	for connected, want := range map[bool]telemetry.SourceState{true: telemetry.SourceOK, false: telemetry.SourceLost} {
		v := clusterstate.WithStats(before, nodestatus.Stats{Connected: connected, NodeView: telemetry.NodeView{Pressure: true}})
		if v.Sources[telemetry.APIServer] != want || v.Sources[telemetry.NRI] != telemetry.SourceOK || !v.Node.Pressure {
			t.Errorf("connected %t: %+v, %+v", connected, v.Sources, v.Node)
		}
	}
	if _, changed := before.Sources[telemetry.APIServer]; changed || before.Node != nil {
		t.Error("the published view has changed")
	}
}
