package requests_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/cpupoold/cpupoold/internal/node/lookup"
	"github.com/cpupoold/cpupoold/internal/node/requests"
	"github.com/cpupoold/cpupoold/internal/node/undo"
	"github.com/cpupoold/cpupoold/pkg/cgroup"
	"github.com/cpupoold/cpupoold/pkg/cpuset"
	"github.com/cpupoold/cpupoold/pkg/cri"
	"github.com/cpupoold/cpupoold/pkg/nri"
	"github.com/cpupoold/cpupoold/pkg/pools"
)

var original = undo.Original{Path: "new", File: cgroup.FileCPUs}

func statusOf(c cri.Container, s cri.State) lookup.ContainerStatus {
	c.State = s
	return lookup.ContainerStatus{Container: c}
}

// planOf places container c of a pool on CPUs 2-3.
func planOf(pool pools.Pool, exclusive bool) *pools.Plan {
	return &pools.Plan{Pods: []pools.PodPlan{{UID: "u", Containers: []pools.Placement{
		{ID: "c", Kind: pools.App, Pool: pool, Exclusive: exclusive, CPUs: cpuset.Range(2, 3)},
	}}}}
}

// leave is the write that takes CPUs 2-3 from a container.
func leave(id string, p cgroup.Path) cgroup.Write {
	return cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: "4-7", Container: id}
}

// TestAddUpdate checks which writes become part of a reply.
func TestAddUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world, u *cgroup.Write)
		plan   *pools.Plan
		want   bool
	}{
		"takes its CPUs from another record":   {want: true},
		"of a pod pool":                        {plan: planOf(pools.Guaranteed, false), want: true},
		"no request":                           {change: func(w *world, _ *cgroup.Write) { refuseAll(w) }},
		"another property":                     {change: func(_ *world, u *cgroup.Write) { u.Property = cgroup.FileCPUs }},
		"no CPUs":                              {change: func(_ *world, u *cgroup.Write) { u.Value = "x" }},
		"keeps them":                           {change: func(_ *world, u *cgroup.Write) { u.Value = "3-7" }},
		"has none of them":                     {change: func(w *world, _ *cgroup.Write) { w.runs("other", "4-7") }},
		"unknown":                              {change: func(w *world, _ *cgroup.Write) { w.inventory.CancelCreate("other") }},
		"the new container is shared":          {plan: planOf(pools.Shared, false)},
		"the new container is not in the plan": {plan: &pools.Plan{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			u := leave("other", w.runs("other", "2-7"))
			w.create("c", "")
			if c.change != nil {
				c.change(w, &u)
			}
			if c.plan == nil {
				c.plan = planOf(pools.Guaranteed, true)
			}
			if got := w.AddUpdate(u, c.plan); got != c.want || w.cache.Writes.IsBusy(u.Path) != c.want {
				t.Errorf("added: %t, in progress: %t; want %t", got, w.cache.Writes.IsBusy(u.Path), c.want)
			}
		})
	}
}

func refuseAll(w *world) {
	w.AnswerCreates(w.now, func(*requests.Create) (nri.Reply, error) { return nri.Reply{}, errRefused })
}

// TestUpdates checks the life of the updates of a reply: the reply contains them, the daemon reads
// the records later, or at the next request, and once.
func TestUpdates(t *testing.T) {
	w := newWorld(t)
	a := w.create("c", "")
	paths := make(map[string]cgroup.Path)
	for i := range 12 {
		id := fmt.Sprint("o", i)
		p := w.runs(id, "2-7")
		if w.AddUpdate(leave(id, p), planOf(pools.Guaranteed, true)) {
			paths[id] = p
		}
	}
	if len(paths) != 8 {
		t.Fatalf("%d updates in the reply; want 8", len(paths))
	}
	if due := maps.Collect(w.DueUpdates(true, w.now)); len(due) > 0 || w.next() != 0 {
		t.Errorf("before the reply %v are read, next in %v", due, w.next())
	}
	w.Accept(a, reply, w.now)
	w.Release(w.now)
	got, ok := replied(a.Reply())
	if !ok || len(got.Value.Updates) != 8 || got.Value.Updates[0].CPUs.String() != "4-7" {
		t.Errorf("reply %+v; want eight updates to CPUs 4-7", got)
	}
	if w.next() != 8*500*time.Millisecond {
		t.Errorf("the records are read after %v; want half a second for each", w.next())
	}
	if due := maps.Collect(w.DueUpdates(false, w.now.Add(w.next()-1))); len(due) > 0 {
		t.Errorf("%v are read too early", due)
	}
	if diff := cmp.Diff(paths, maps.Collect(w.DueUpdates(true, w.now))); diff != "" {
		t.Errorf("records to read (-want +got):\n%s", diff)
	}
	if due := maps.Collect(w.DueUpdates(true, w.now)); len(due) > 0 || w.next() != 0 {
		t.Errorf("%v are read twice, next in %v", due, w.next())
	}
	u, open := w.EndUpdate("o0")
	if want := (cgroup.Write{Path: paths["o0"], Via: cgroup.NRI, Property: cgroup.CRICPUs, Value: "4-7", Container: "o0", Reason: "gave way"}); !open || u != want {
		t.Errorf("update %+v, %t; want %+v", u, open, want)
	}
	if w.cache.Current(u.Path).RecordedKnown {
		t.Error("the record of an update without a result is known")
	}
	if _, open := w.EndUpdate("o0"); open {
		t.Error("an update ends twice")
	}
}

// TestUpdateResult checks that replies contain no update of a container whose last update was not
// made, until a worker has changed its record or it has gone.
func TestUpdateResult(t *testing.T) {
	for name, c := range map[string]struct {
		after      func(w *world)
		made, next bool
	}{
		"made":                        {func(w *world) { w.runs("other", "4-7") }, true, true},
		"gone":                        {func(w *world) { w.inventory.CancelCreate("other") }, true, true},
		"ended":                       {func(w *world) { w.inventory.PutContainer(statusOf(container("other", ""), cri.Exited)) }, true, true},
		"not made":                    {func(*world) {}, false, false},
		"not made, and made over CRI": {func(w *world) { defer w.NoteRecorded("other") }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.runs("other", "2-7")
			w.create("c", "")
			if !w.AddUpdate(leave("other", p), planOf(pools.Guaranteed, true)) {
				t.Fatal("no update")
			}
			w.AnswerCreates(w.now, func(*requests.Create) (nri.Reply, error) { return reply, nil })
			w.Release(w.now)
			u, _ := w.EndUpdate("other")
			if strings.HasPrefix(name, "not made") {
				if made := w.CheckUpdate(u); made || !strings.Contains(w.log.String(), "retrying over CRI") {
					t.Errorf("made: %t, log %s", made, w.log.String())
				}
				c.after(w)
			} else if c.after(w); !w.CheckUpdate(u) || w.log.Len() > 0 {
				t.Errorf("not made, log %s", w.log.String())
			}
			w.create("d", "")
			plan := planOf(pools.Guaranteed, true)
			plan.Pods[0].Containers[0].ID = "d"
			w.Forget() // the container is there, or has no failure
			if next := w.AddUpdate(leave("other", w.runs("other", "2-7")), plan); next != c.next {
				t.Errorf("the next reply has an update: %t; want %t", next, c.next)
			}
		})
	}
}

// TestUpdatesWithoutReply checks that the updates of a request without a reply end, and that
// their records are unknown.
func TestUpdatesWithoutReply(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"refused":  refuseAll,
		"canceled": func(w *world) { close(w.canceled); refuseAll(w) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.runs("other", "2-7")
			w.create("c", "")
			w.AddUpdate(leave("other", p), planOf(pools.Guaranteed, true))
			end(w)
			if _, open := w.EndUpdate("other"); open || w.cache.Writes.IsBusy(p) || w.cache.Current(p).RecordedKnown {
				t.Error("the update is open, or the record is known")
			}
		})
	}
}

// TestKeep checks which values an update by another process must not change.
func TestKeep(t *testing.T) {
	on := func(change func(*pools.Placement)) *pools.Placement {
		p := &pools.Placement{ID: "c", Kind: pools.App, Pool: pools.Shared, CPUs: cpuset.Range(2, 3)}
		change(p)
		return p
	}
	same := func(*pools.Placement) {}
	for name, c := range map[string]struct {
		p      *pools.Placement
		asked  cri.Resources
		static bool
		want   cri.Resources
	}{
		"other CPUs":                      {on(same), cri.Resources{CPUs: "4-7"}, false, cri.Resources{CPUs: "2-3"}},
		"its CPUs":                        {on(same), cri.Resources{CPUs: "2-3"}, false, cri.Resources{}},
		"other CPUs, not in the plan":     {nil, cri.Resources{CPUs: "4-7"}, false, cri.Resources{CPUs: "2-3"}},
		"of another manager":              {on(func(p *pools.Placement) { p.Pool = pools.Other }), cri.Resources{CPUs: "4-7"}, false, cri.Resources{}},
		"planned CPUs, static kubelet":    {on(func(p *pools.Placement) { p.CPUs = cpuset.Range(0, 1) }), cri.Resources{CPUs: "4-7"}, true, cri.Resources{CPUs: "0-1"}},
		"shares of an annotation":         {on(func(p *pools.Placement) { p.Shares = 512 }), cri.Resources{Shares: 2048}, false, cri.Resources{Shares: 512}},
		"no quota":                        {on(func(p *pools.Placement) { p.Unlimited = true }), cri.Resources{Quota: 100_000, Period: 100_000}, false, cri.Resources{Quota: -1}},
		"quota of a limit":                {on(func(p *pools.Placement) { p.Limit = 500 }), cri.Resources{Quota: -1}, false, cri.Resources{Quota: 50_000, Period: 100_000}},
		"memory nodes":                    {on(func(p *pools.Placement) { p.Mems = cpuset.Of(1) }), cri.Resources{Mems: "0-1"}, false, cri.Resources{Mems: "1"}},
		"nothing of the daemon's changes": {on(same), cri.Resources{Shares: 2048}, false, cri.Resources{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.runs("c", "2-3")
			if diff := cmp.Diff(c.want, w.Keep(w.inventory.Objects().Container("c"), c.p, c.asked, c.static)); diff != "" {
				t.Errorf("keeps (-want +got):\n%s", diff)
			}
			w.cache.NoteMissingUpdate(p, cpuset.Range(2, 3))
			if c.p == nil || c.p.Pool == pools.Other || c.static {
				return
			}
			if keep := w.Keep(w.inventory.Objects().Container("c"), c.p, cri.Resources{Shares: 1}, false); keep.CPUs != "2-3" {
				t.Errorf("with an unknown record it keeps CPUs %q; want those of its cgroup", keep.CPUs)
			}
		})
	}
}

// TestKeepSettledCPUs checks that an update keeps the CPUs of the write in progress or of the record, and only
// the part of them that the cgroup has.
func TestKeepSettledCPUs(t *testing.T) {
	for name, c := range map[string]struct {
		recorded string
		known    bool
		write    string // in progress
		want     string
	}{
		"the record":                  {"2-3", true, "", "2-3"},
		"other CPUs than the cgroup":  {"4-5", true, "", "4-5"},
		"more CPUs than the cgroup":   {"2-5", true, "", "2-3"},
		"an unknown record":           {"2-3", false, "", ""},
		"a write of other CPUs":       {"2-3", true, "4-5", "4-5"},
		"a write of more CPUs":        {"4-5", true, "2-5", "2-3"},
		"a write, the record unknown": {"2-3", false, "4-5", "4-5"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.runs("c", "2-3")
			recorded, err := cpuset.Parse(c.recorded)
			if err != nil {
				t.Fatal(err)
			}
			w.cache.SetRecord(p, cgroup.Current{Recorded: recorded, RecordedKnown: c.known})
			if c.write != "" {
				w.cache.NoteSubmitted(cgroup.Write{Path: p, Via: cgroup.CRI, Property: cgroup.CRICPUs, Value: c.write})
			}
			if keep := w.Keep(w.inventory.Objects().Container("c"), nil, cri.Resources{CPUs: "0"}, false); keep.CPUs != c.want {
				t.Errorf("keeps CPUs %q; want %q", keep.CPUs, c.want)
			}
		})
	}
}
