package daemon

import (
	"encoding/json"
	"testing"

	"github.com/cpupoold/cpupoold/internal/history"
	"github.com/cpupoold/cpupoold/internal/inspect"
	"github.com/cpupoold/cpupoold/internal/node/telemetry"
	"github.com/cpupoold/cpupoold/internal/testing/nodefixture"
	"github.com/cpupoold/cpupoold/pkg/cri"
)

func TestStatus(t *testing.T) {
	n := newNode(t)
	r := n.start()
	o := newAnswers(r.loop.publisher, r.loop.Cgroups, n.options())
	burst := n.RunContainer(n.RunPod("burst", "default", "burstable", 0, nil), "app", cri.Resources{Shares: 512})
	excl := n.RunContainer(n.RunPod("excl", "ran", "guaranteed", 2, nil), "du", nodefixture.WholeCPUs(2))
	n.AwaitCPUs(excl, "4-5")
	n.AwaitCPUs(burst, "2-3")
	r.quiet()
	r.view("ready", func(v *telemetry.View) bool { return v.Ready })
	s := o.Status()
	if s.Version != inspect.Version || !s.Daemon.Ready || s.Passes.OK == 0 || s.Passes.LastSuccess.IsZero() || s.Sequence == 0 {
		t.Errorf("version, readiness or passes are wrong: %+v %+v", s.Daemon, s.Passes)
	}
	found := map[string]inspect.Container{}
	for _, c := range s.Containers {
		found[c.Full()] = c
	}
	du, app := found["ran/excl/du"], found["default/burst/app"]
	if !du.Exclusive || du.CPUs.String() != "4-5" || du.Mode != "cpuset" || du.Code != "Exclusive" || du.State != "running" || du.Cgroup != n.Runtime.Cgroup(excl) {
		t.Errorf("the owner is shown as %+v", du)
	}
	if app.Exclusive || app.CPUs.String() != "2-3" || app.Pool != inspect.Shared || app.Code != "Burstable" {
		t.Errorf("a shared container is shown as %+v", app)
	}
	uses := map[int]string{0: "pool", 2: "pool", 4: "owned", 6: "free"}
	for _, c := range s.CPUs {
		if want, asked := uses[c.ID]; asked && (c.Use != want || !c.Online || c.Node < 0) {
			t.Errorf("CPU %d is shown as %+v; want use %s", c.ID, c, want)
		}
		if owned := c.ID == 4 || c.ID == 5; owned != (c.Owner == "ran/excl/du") {
			t.Errorf("CPU %d has owner %q", c.ID, c.Owner)
		}
	}
	if s.CPUs[0].Busy <= 0 { // of the machine on which the test runs
		t.Errorf("CPU 0 is shown as %+v; want how long it was busy", s.CPUs[0])
	}
	if len(s.CPUs) != n.Topology.Present.Len() || s.Topology == nil {
		t.Errorf("%d CPUs are shown, topology %v", len(s.CPUs), s.Topology)
	}
	if text, err := json.Marshal(s); err != nil || json.Unmarshal(text, new(inspect.Status)) != nil {
		t.Errorf("the status is not to be had as JSON: %v", err)
	}
	var kinds []history.Kind
	for _, e := range o.History().Select(history.Query{About: "ran/excl/du", Kinds: []history.Kind{history.Placed, history.Ended}}) {
		kinds = append(kinds, e.Kind)
	}
	if len(kinds) != 1 || kinds[0] != history.Placed {
		t.Errorf("the owner's placements are noted as %v; want one", kinds)
	}
	if wrote := o.History().Select(history.Query{About: "ran/excl/du", Kinds: []history.Kind{history.Wrote}}); len(wrote) == 0 {
		t.Error("no write for the owner is noted")
	}
	if err := n.Runtime.StopContainer(excl); err != nil {
		t.Fatal(err)
	}
	r.quiet()
	if at := o.Status(); len(at.Containers) != 2 {
		t.Errorf("containers = %+v; want the one whose CPUs are held, too", at.Containers)
	}
}
