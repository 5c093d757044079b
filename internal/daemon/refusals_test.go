package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/cpupoold/cpupoold/internal/telemetry"
	"github.com/cpupoold/cpupoold/pkg/allocate"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

func failing(yaml string) string {
	return strings.Replace(yaml, "  cpus: 4-7\n", "  cpus: 4-7\n  onRefusal: fail\n", 1)
}

// TestRefusedContainerIsStoppedOnce: those that the daemon has seen being created,
// and no others.
func TestRefusedContainerIsStoppedOnce(t *testing.T) {
	n := newNode(t)
	n.yaml = failing(poolsYAML)
	old := n.container(n.pod("old", "default", "guaranteed", 5, nil), "app", whole(5))
	r := n.start()
	n.runsOn(old, "2-3")
	r.quiet()
	holder := n.pod("holder", "default", "guaranteed", 3, nil)
	n.runsOn(n.container(holder, "app", whole(3)), "4-6")
	pod := n.pod("new", "default", "guaranteed", 2, nil)
	first := n.container(pod, "app", whole(2))
	n.eventually("refused container stopped", func() bool { return !n.running(first) })
	second := n.container(pod, "app", whole(2)) // as the kubelet does
	n.eventually("stopped again", func() bool { return !n.running(second) })
	r.quiet()
	if calls := n.runtime.Calls("StopContainer"); calls != 2 {
		t.Errorf("%d containers stopped; want the two that were refused", calls)
	}
	if !n.running(old) {
		t.Error("a container that ran before the daemon was stopped")
	}
	r.view("events", func(v *telemetry.View) bool { return len(v.Refusals) == 3 && !v.Refusals[2].Until.IsZero() })
	v := r.loop.snapshot.Load()
	want := []telemetry.Refusal{
		{Pod: "default/old", PodUID: "old", Container: "app", ID: old, Asked: 5, Free: 4},
		{Pod: "default/new", PodUID: "new", Container: "app", ID: first, Asked: 2, Free: 1, Stopped: true},
		{Pod: "default/new", PodUID: "new", Container: "app", ID: second, Asked: 2, Free: 1, Stopped: true},
	}
	ignore := cmpopts.IgnoreFields(telemetry.Refusal{}, "Code", "Why", "Since", "Until")
	if d := cmp.Diff(want, v.Refusals, ignore); d != "" {
		t.Errorf("refusals (-want +got):\n%s", d)
	}
	for i, x := range v.Refusals {
		if x.Code == "" || x.Why == "" || x.Since.IsZero() || x.Until.IsZero() != (i == 0) {
			t.Errorf("refusal %+v", x)
		}
	}
	total := uint64(0)
	for _, c := range v.Refused {
		total += c
	}
	if total != 3 {
		t.Errorf("refusals by code = %v; want 3", v.Refused)
	}
	if err := n.runtime.StopPod(holder); err != nil {
		t.Fatal(err)
	}
	n.eventually("holder gone", func() bool { return r.loop.snapshot.Load().Pools[2].Free.Len() >= 2 })
	n.runsOn(n.container(pod, "app", whole(2)), "4-5")
}

func (n *node) running(id string) bool { return n.state(id).Populated }

// TestRefusedContainerRuns: with onRefusal: shared it stays, and gets CPUs when
// there are some.
func TestRefusedContainerRuns(t *testing.T) {
	n := newNode(t)
	r := n.start()
	holder := n.pod("holder", "default", "guaranteed", 3, nil)
	n.runsOn(n.container(holder, "app", whole(3)), "4-6")
	id := n.container(n.pod("new", "default", "guaranteed", 2, nil), "app", whole(2))
	n.runsOn(id, "2-3")
	r.view("refusal", func(v *telemetry.View) bool { return len(v.Refusals) == 1 && v.Refusals[0].Until.IsZero() })
	if err := n.runtime.StopPod(holder); err != nil {
		t.Fatal(err)
	}
	n.runsOn(id, "4-5")
	r.view("over", func(v *telemetry.View) bool { return len(v.Refusals) == 1 && !v.Refusals[0].Until.IsZero() })
	if calls := n.runtime.Calls("StopContainer"); calls != 0 {
		t.Errorf("%d containers stopped", calls)
	}
}

// TestPastRefusalsAreBounded: what is over is forgotten some day, what lasts is not.
func TestPastRefusalsAreBounded(t *testing.T) {
	n := newNode(t)
	o := n.options()
	l, err := newLoop(n.host(), o)
	if err != nil {
		t.Fatal(err)
	}
	refuse := func(uids ...string) {
		var p pools.Plan
		for _, uid := range uids {
			p.Pods = append(p.Pods, pools.PodPlan{UID: uid, Containers: []pools.Placement{
				{ID: uid, Name: "app", State: pools.Created, Refused: &allocate.Refusal{Code: "TooFew"}}}})
		}
		l.noteRefusals(p, time.Now())
	}
	for range 3 * keptRefusals {
		refuse("stays", "passes")
		refuse("stays")
	}
	all := l.refusals.list()
	if len(all) != keptRefusals+1 || all[0].ID != "stays" || len(l.refusals.now) != 1 {
		t.Errorf("%d refusals, the first is %+v; want %d", len(all), all[0], keptRefusals+1)
	}
	if got := l.refusals.total["TooFew"]; got != 3*keptRefusals+1 {
		t.Errorf("%d refusals counted", got)
	}
}
